"""The requests of a share session: epochs, changed partitions, acknowledgements, and lost sessions."""

from __future__ import annotations

from uuid import UUID

import pytest

from tidelog.clients.config.options import ConfigError
from tidelog.clients.config.share_config import ShareConsumerConfig
from tidelog.clients.share_consumer.acquired_records import Acknowledgement
from tidelog.clients.share_consumer.share_session import ShareSession
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.share_fetch import ShareFetchRequest

A, B = (UUID(int=1), 0), (UUID(int=2), 3)


def new_session() -> ShareSession:
    return ShareSession("m", ShareConsumerConfig(group_id="g", max_poll_records=7))


def partitions(request: ShareFetchRequest) -> list[tuple[UUID, int]]:
    return [(topic.topic_id, each.partition_index) for topic in request.topics for each in topic.partitions]


def test_the_first_request_has_all_partitions_and_later_ones_only_changes() -> None:
    session = new_session()
    first = session.fetch_request([A], {})
    assert (first.share_session_epoch, partitions(first), first.max_records) == (0, [A], 7)
    assert not session.is_open
    session.on_response(ErrorCode.NONE)
    second = session.fetch_request([A, B], {})
    assert (second.share_session_epoch, partitions(second)) == (1, [B])
    session.on_response(ErrorCode.NONE)
    third = session.fetch_request([B], {})
    assert (third.share_session_epoch, partitions(third)) == (2, [])
    assert [(topic.topic_id, topic.partitions) for topic in third.forgotten_topics_data] == [(A[0], (0,))]


def test_acknowledgements_of_a_partition_that_is_not_fetched_do_not_fetch_it() -> None:
    session = new_session()
    session.fetch_request([A], {})
    session.on_response(ErrorCode.NONE)
    request = session.fetch_request([A], {B: [Acknowledgement(0, 4, (1,))]})
    assert partitions(request) == [B]
    (batch,) = request.topics[0].partitions[0].acknowledgement_batches
    assert (batch.first_offset, batch.last_offset, batch.acknowledge_types) == (0, 4, (1,))
    assert [topic.topic_id for topic in request.forgotten_topics_data] == [B[0]]


def test_acknowledgements_alone_use_the_epochs_of_the_session() -> None:
    session = new_session()
    session.fetch_request([A], {})
    session.on_response(ErrorCode.NONE)
    request = session.acknowledge_request({A: [Acknowledgement(0, 1, (1, 2))]}, is_renewal=True)
    assert (request.share_session_epoch, request.is_renew_ack) == (1, True)
    session.on_response(ErrorCode.NONE)
    assert session.acknowledge_request({}, is_last=True).share_session_epoch == -1


@pytest.mark.parametrize("code", [ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH])
def test_a_lost_session_is_opened_again_with_all_partitions(code: ErrorCode) -> None:
    session = new_session()
    session.fetch_request([A], {})
    session.on_response(ErrorCode.NONE)
    assert session.on_response(code)
    request = session.fetch_request([A], {})
    assert (request.share_session_epoch, partitions(request)) == (0, [A])


def test_a_share_consumer_needs_a_group() -> None:
    with pytest.raises(ConfigError, match="group_id"):
        ShareConsumerConfig()
    with pytest.raises(ConfigError, match="share_acknowledgement_mode"):
        ShareConsumerConfig(group_id="g", share_acknowledgement_mode="none")
