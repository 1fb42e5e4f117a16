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


def at(offset: int, *, topic_id: int = 7, epoch: int = 0) -> SessionPartition:
    return SessionPartition(UUID(int=topic_id), offset, epoch, 1_000)


def built(session: FetchSession, **offsets: int) -> SessionRequest:
    wanted = {TopicPartition("tides", int(name[1:])): at(offset) for name, offset in offsets.items()}
    return session.build(wanted, by_topic_id=True)


def established() -> FetchSession:
    session = FetchSession()
    built(session, p0=0, p1=0)
    session.on_success(session_id=5)
    return session


def test_the_first_request_asks_for_a_session_and_lists_everything() -> None:
    request = built(FetchSession(), p0=3, p1=4)
    assert (request.session_id, request.epoch) == (0, 0)
    assert dict(request.to_send) == {P0: at(3), P1: at(4)}


def test_a_broker_that_gives_no_session_gets_full_requests() -> None:
    session = FetchSession()
    built(session, p0=0)
    session.on_success(session_id=0)
    assert built(session, p0=0).epoch == INITIAL_EPOCH


def test_only_changes_are_sent_in_a_session() -> None:
    session = established()
    request = built(session, p0=0, p1=9, p2=1)
    assert (request.session_id, request.epoch) == (5, 1)
    assert dict(request.to_send) == {P1: at(9), P2: at(1)}
    assert dict(request.forgotten) == {}


def test_partitions_that_are_not_wanted_any_more_are_forgotten() -> None:
    request = built(established(), p1=0)
    assert dict(request.to_send) == {}
    assert dict(request.forgotten) == {P0: UUID(int=7)}


def test_epochs_count_answered_requests_and_pass_over_zero() -> None:
    session = established()
    epochs = []
    for _ in range(3):
        epochs.append(built(session, p0=0).epoch)
        session.on_success(session_id=5)
    assert epochs == [1, 2, 3]
    session.epoch = 2**31 - 1
    built(session, p0=0)
    session.on_success(session_id=5)
    assert built(session, p0=0).epoch == 1


def test_a_lost_answer_makes_the_next_request_full_and_closes_the_session() -> None:
    session = established()
    built(session, p0=0, p1=0)
    session.on_failure(ErrorCode.NETWORK_EXCEPTION)
    request = built(session, p0=0, p1=0)
    assert (request.session_id, request.epoch) == (5, 0)
    assert len(request.to_send) == 2


def test_a_session_that_the_broker_forgot_is_not_named_again() -> None:
    session = established()
    session.on_failure(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    request = built(session, p0=0)
    assert (request.session_id, request.epoch) == (0, 0)


def test_a_session_that_the_broker_closed_while_answering_is_begun_again() -> None:
    session = established()
    built(session, p0=0)
    session.on_success(session_id=0)
    assert (built(session, p0=0).session_id, session.epoch) == (0, 0)


def test_a_topic_recreated_is_forgotten_by_its_old_id_and_sent_with_its_new_one() -> None:
    session = established()
    request = session.build({P0: at(0, topic_id=8), P1: at(0)}, by_topic_id=True)
    assert dict(request.to_send) == {P0: at(0, topic_id=8)}
    assert dict(request.forgotten) == {P0: UUID(int=7)}


def test_changing_between_names_and_ids_starts_over() -> None:
    session = established()
    nameless = SessionPartition(ZERO_UUID, 0, 0, 1_000)
    assert session.build({P0: nameless}, by_topic_id=False).epoch == INITIAL_EPOCH


def test_closing_names_the_session_once_it_exists() -> None:
    assert FetchSession().close() is None
    closing = established().close()
    assert closing is not None
    assert (closing.session_id, closing.epoch, dict(closing.to_send)) == (5, -1, {})
