from __future__ import annotations

from uuid import UUID

from tidelog.clients.consumer.fetch_session import (
    INITIAL_EPOCH,
    FetchSession,
    SessionPartition,
    SessionRequest,
)
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.schema import ZERO_UUID

P0, P1, P2 = (TopicPartition("tides", number) for number in range(3))


def position_at(offset: int, *, topic_id: int = 7, epoch: int = 0) -> SessionPartition:
    return SessionPartition(UUID(int=topic_id), offset, epoch, 1_000)


def build_request(session: FetchSession, **offsets: int) -> SessionRequest:
    positions = {
        TopicPartition("tides", int(name[1:])): position_at(offset) for name, offset in offsets.items()
    }
    return session.build(positions, by_topic_id=True)


def establish_session() -> FetchSession:
    session = FetchSession()
    build_request(session, p0=0, p1=0)
    session.on_success(session_id=5)
    return session


def test_the_first_request_creates_a_session_with_all_partitions() -> None:
    request = build_request(FetchSession(), p0=3, p1=4)
    assert (request.session_id, request.epoch) == (0, 0)
    assert dict(request.to_send) == {P0: position_at(3), P1: position_at(4)}


def test_a_broker_without_sessions_gets_full_requests() -> None:
    session = FetchSession()
    build_request(session, p0=0)
    session.on_success(session_id=0)
    assert build_request(session, p0=0).epoch == INITIAL_EPOCH


def test_only_changes_are_sent_in_a_session() -> None:
    session = establish_session()
    request = build_request(session, p0=0, p1=9, p2=1)
    assert (request.session_id, request.epoch) == (5, 1)
    assert dict(request.to_send) == {P1: position_at(9), P2: position_at(1)}
    assert dict(request.forgotten) == {}


def test_removed_partitions_are_forgotten() -> None:
    request = build_request(establish_session(), p1=0)
    assert dict(request.to_send) == {}
    assert dict(request.forgotten) == {P0: UUID(int=7)}


def test_the_session_epoch_increases_per_response_and_skips_zero() -> None:
    session = establish_session()
    epochs = []
    for _ in range(3):
        epochs.append(build_request(session, p0=0).epoch)
        session.on_success(session_id=5)
    assert epochs == [1, 2, 3]
    session.epoch = 2**31 - 1
    build_request(session, p0=0)
    session.on_success(session_id=5)
    assert build_request(session, p0=0).epoch == 1


def test_a_lost_response_closes_the_session_and_makes_the_next_request_full() -> None:
    session = establish_session()
    build_request(session, p0=0, p1=0)
    session.on_failure(ErrorCode.NETWORK_EXCEPTION)
    request = build_request(session, p0=0, p1=0)
    assert (request.session_id, request.epoch) == (5, 0)
    assert len(request.to_send) == 2


def test_a_session_unknown_to_the_broker_is_not_used_again() -> None:
    session = establish_session()
    session.on_failure(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    request = build_request(session, p0=0)
    assert (request.session_id, request.epoch) == (0, 0)


def test_a_session_closed_by_the_broker_is_created_again() -> None:
    session = establish_session()
    build_request(session, p0=0)
    session.on_success(session_id=0)
    assert (build_request(session, p0=0).session_id, session.epoch) == (0, 0)


def test_a_recreated_topic_is_forgotten_by_its_old_id_and_sent_with_its_new_one() -> None:
    session = establish_session()
    request = session.build({P0: position_at(0, topic_id=8), P1: position_at(0)}, by_topic_id=True)
    assert dict(request.to_send) == {P0: position_at(0, topic_id=8)}
    assert dict(request.forgotten) == {P0: UUID(int=7)}


def test_a_change_between_names_and_ids_creates_a_new_session() -> None:
    session = establish_session()
    nameless = SessionPartition(ZERO_UUID, 0, 0, 1_000)
    assert session.build({P0: nameless}, by_topic_id=False).epoch == INITIAL_EPOCH


def test_close_names_an_existing_session() -> None:
    assert FetchSession().close() is None
    closing = establish_session().close()
    assert closing is not None
    assert (closing.session_id, closing.epoch, dict(closing.to_send)) == (5, -1, {})
