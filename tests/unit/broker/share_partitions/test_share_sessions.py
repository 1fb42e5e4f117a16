"""Share sessions: epochs, changes of partitions, and bounds."""

from __future__ import annotations

from uuid import UUID

import pytest

from tidelog.broker.share_partitions.share_sessions import (
    FINAL_EPOCH,
    SESSION_PARTITIONS_MAX,
    MemberKey,
    ShareSessions,
    TopicIdAndIndex,
)
from tidelog.protocol.errors import ErrorCode, KafkaError

TOPIC = UUID(int=1)
MEMBER = MemberKey("g", "m")


def partitions(count: int, first: int = 0) -> list[TopicIdAndIndex]:
    return [TopicIdAndIndex(TOPIC, index) for index in range(first, first + count)]


def code_of(failure: pytest.ExceptionInfo[KafkaError]) -> ErrorCode:
    return failure.value.code


def test_each_request_has_the_next_epoch() -> None:
    sessions = ShareSessions(10)
    session = sessions.open(MEMBER, partitions(1))
    assert sessions.next(MEMBER, 1) is session
    assert sessions.next(MEMBER, 2) is session
    with pytest.raises(KafkaError) as failure:
        sessions.next(MEMBER, 2)
    assert code_of(failure) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert sessions.next(MEMBER, FINAL_EPOCH) is session


def test_the_epoch_after_the_highest_one_is_1() -> None:
    sessions = ShareSessions(10)
    session = sessions.open(MEMBER, partitions(1))
    session.epoch = 0x7FFFFFFF
    sessions.next(MEMBER, 0x7FFFFFFF)
    assert session.epoch == 1


def test_a_request_without_a_session_is_rejected() -> None:
    with pytest.raises(KafkaError) as failure:
        ShareSessions(10).next(MEMBER, FINAL_EPOCH)
    assert code_of(failure) is ErrorCode.SHARE_SESSION_NOT_FOUND


def test_partitions_are_added_and_removed() -> None:
    sessions = ShareSessions(10)
    session = sessions.open(MEMBER, partitions(2))
    sessions.update(session, partitions(2, first=1), partitions(1))
    assert list(session.partitions) == partitions(2, first=1)
    assert sessions.partition_count == 2
    sessions.end(session)
    sessions.end(session)
    assert (len(sessions), sessions.partition_count) == (0, 0)


def test_a_new_partition_and_the_end_of_an_error_are_sent_without_records() -> None:
    sessions = ShareSessions(10)
    session = sessions.open(MEMBER, partitions(1))
    first, added = partitions(2)
    sessions.update(session, [added], [])
    assert not session.must_send(first, has_records=False, has_error=False)
    assert session.must_send(first, has_records=True, has_error=False)
    assert session.must_send(added, has_records=False, has_error=False)
    assert not session.must_send(added, has_records=False, has_error=False)
    assert session.must_send(first, has_records=False, has_error=True)
    assert session.must_send(first, has_records=False, has_error=False)
    assert not session.must_send(first, has_records=False, has_error=False)


def test_the_number_of_sessions_is_limited_but_a_member_can_open_its_session_again() -> None:
    sessions = ShareSessions(1)
    sessions.open(MEMBER, partitions(1))
    sessions.open(MEMBER, partitions(3))
    assert sessions.partition_count == 3
    with pytest.raises(KafkaError) as failure:
        sessions.open(MemberKey("g", "n"), partitions(1))
    assert code_of(failure) is ErrorCode.SHARE_SESSION_LIMIT_REACHED


def test_a_full_session_may_acknowledge_records_of_its_partitions() -> None:
    """Requests name partitions whose records they acknowledge. They counted as further partitions."""
    sessions = ShareSessions(10)
    session = sessions.open(MEMBER, partitions(SESSION_PARTITIONS_MAX))
    sessions.update(session, partitions(100), [])
    assert len(session.partitions) == sessions.partition_count == SESSION_PARTITIONS_MAX


def test_more_partitions_are_removed_than_the_session_has() -> None:
    sessions = ShareSessions(10)
    session = sessions.open(MEMBER, partitions(3))
    sessions.update(session, [], partitions(10, first=1))
    assert list(session.partitions) == partitions(1)


def test_a_session_with_too_many_partitions_ends() -> None:
    sessions = ShareSessions(10)
    session = sessions.open(MEMBER, partitions(SESSION_PARTITIONS_MAX))
    with pytest.raises(KafkaError) as failure:
        sessions.update(session, partitions(1, first=SESSION_PARTITIONS_MAX), [])
    assert code_of(failure) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert (len(sessions), sessions.partition_count) == (0, 0)
