"""Members of consumer and share groups with very many topics, partitions, or acknowledgements (review)."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from tests.harness.hostile.attack import Attack
from tests.harness.hostile.attack_context import AttackContext
from tests.harness.hostile.frames import request_frame
from tests.harness.hostile.large_arrays import existing_topic_id
from tidelog.protocol.messages import share_acknowledge, share_fetch
from tidelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tidelog.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from tidelog.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from tidelog.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

TOPICS: Final = 40_000
ACKNOWLEDGED: Final = 40_000
ADDED: Final = 19_000
"""A session of a share member has at most 20,000 partitions."""
ACCEPT: Final = 1
LEAVE: Final = -1
PARTITIONS: Final = 2_000
TOPICS_OF_MEMBERS: Final = 20
PARTITIONS_OF_A_TOPIC: Final = 50


def _names(context: AttackContext, turn: int) -> tuple[str, ...]:
    return tuple(f"wide-{turn}-{number}" for number in range(context.size(TOPICS, 50)))


def _join_share_group(context: AttackContext) -> None:
    """Join with one set of topics, then with the other, repeatedly."""
    frames = [
        request_frame(
            ShareGroupHeartbeatRequest(
                group_id="wide", member_id="m", member_epoch=0, subscribed_topic_names=_names(context, turn)
            ),
            1,
        )
        for turn in range(2)
    ]
    _send_in_turn(context, frames)


def _join_consumer_group(context: AttackContext) -> None:
    frames = [
        request_frame(
            ConsumerGroupHeartbeatRequest(
                group_id="wide",
                member_id="m",
                member_epoch=0,
                rebalance_timeout_ms=30_000,
                subscribed_topic_names=_names(context, turn),
                topic_partitions=(),
            ),
            1,
        )
        for turn in range(2)
    ]
    _send_in_turn(context, frames)


def _send_in_turn(context: AttackContext, frames: list[bytes]) -> None:
    client = context.client()
    context.begin()
    heartbeats = 0
    while not context.has_ended:
        if context.exchange(client, frames[heartbeats % len(frames)]) is None:
            break
        heartbeats += 1
    context.note(f"{heartbeats} heartbeats")


def _join_groups_of_many_partitions(context: AttackContext) -> None:
    """Join new groups, each of which assigns all partitions of a topic to its only member, and leave."""
    context.target.create_topic("many-partitions", context.size(PARTITIONS, 10))
    client = context.client()
    context.begin()
    groups = 0
    while not context.has_ended:
        request = ConsumerGroupHeartbeatRequest(
            group_id=f"wide-{groups}",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=30_000,
            subscribed_topic_names=("many-partitions",),
            topic_partitions=(),
        )
        response = client.send_request(request, 1, ConsumerGroupHeartbeatResponse)
        context.expect(response.assignment is not None, "no assignment")
        leaving = ConsumerGroupHeartbeatRequest(group_id=f"wide-{groups}", member_id="m", member_epoch=LEAVE)
        client.send_request(leaving, 1, ConsumerGroupHeartbeatResponse)
        groups += 1
    context.note(f"{groups} groups")


def _join_with_different_topics(context: AttackContext) -> None:
    """Join a group with many members that each subscribe to half of the topics."""
    for number in range(TOPICS_OF_MEMBERS):
        context.target.create_topic(f"half-{number}", context.size(PARTITIONS_OF_A_TOPIC))
    client = context.client()
    context.begin()
    members = 0
    while not context.has_ended:
        request = ConsumerGroupHeartbeatRequest(
            group_id="halves",
            member_id=f"m{members}",
            member_epoch=0,
            rebalance_timeout_ms=30_000,
            subscribed_topic_names=tuple(
                f"half-{(members + number) % TOPICS_OF_MEMBERS}" for number in range(TOPICS_OF_MEMBERS // 2)
            ),
            topic_partitions=(),
        )
        client.send_request(request, 1, ConsumerGroupHeartbeatResponse)
        members += 1
    context.note(f"{members} members")


def _acknowledge_in_fetches(context: AttackContext) -> None:
    """Acknowledge records of partitions that do not exist, in the requests of a session."""
    partitions = tuple(
        share_fetch.FetchPartition(
            partition_index=number,
            acknowledgement_batches=(
                share_fetch.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=(ACCEPT,)),
            ),
        )
        for number in range(context.size(ADDED, 50))
    )
    topics = (share_fetch.FetchTopic(topic_id=UUID(int=7), partitions=partitions),)
    client = context.client()
    context.begin()
    epoch = 0
    while not context.has_ended:
        request = ShareFetchRequest(
            group_id="wide",
            member_id="m",
            share_session_epoch=epoch,
            max_records=500,
            topics=topics if epoch else (),
        )
        context.expect(client.send_request(request, 2, ShareFetchResponse).error_code == 0, "not served")
        epoch += 1
    context.note(f"{epoch} requests")


def _acknowledge(context: AttackContext) -> None:
    topic_id = existing_topic_id(context.target.address)
    partitions = tuple(
        share_acknowledge.AcknowledgePartition(
            partition_index=number,
            acknowledgement_batches=(
                share_acknowledge.AcknowledgementBatch(
                    first_offset=0, last_offset=0, acknowledge_types=(ACCEPT,)
                ),
            ),
        )
        for number in range(context.size(ACKNOWLEDGED, 50))
    )
    topics = (share_acknowledge.AcknowledgeTopic(topic_id=topic_id, partitions=partitions),)
    client = context.client()
    opening = ShareFetchRequest(group_id="wide", member_id="m", share_session_epoch=0, max_records=500)
    client.send_request(opening, 2, ShareFetchResponse)
    context.begin()
    epoch = 1
    while not context.has_ended:
        request = ShareAcknowledgeRequest(
            group_id="wide", member_id="m", share_session_epoch=epoch, topics=topics
        )
        if context.exchange(client, request_frame(request, 2)) is None:
            break
        epoch += 1
    context.note(f"{epoch - 1} requests")


ATTACKS = (
    Attack(
        name="share-group-of-many-topics",
        item="review",
        actions="ShareGroupHeartbeats subscribe to 40,000 topics, and then to 40,000 others",
        run=_join_share_group,
        memory_mib=160,
    ),
    Attack(
        name="consumer-group-of-many-topics",
        item="review",
        actions="ConsumerGroupHeartbeats subscribe to 40,000 topics, and then to 40,000 others",
        run=_join_consumer_group,
        memory_mib=160,
    ),
    Attack(
        name="consumer-groups-of-many-partitions",
        item="review",
        actions="new consumer groups assign 2,000 partitions to their only member",
        run=_join_groups_of_many_partitions,
        descriptors_kept=PARTITIONS,
    ),
    Attack(
        name="consumer-group-of-different-members",
        item="review",
        actions="members that each subscribe to half of 20 topics join a group",
        run=_join_with_different_topics,
        memory_mib=128,
        memory_kept_mib=128,
        descriptors_kept=TOPICS_OF_MEMBERS * PARTITIONS_OF_A_TOPIC,
    ),
    Attack(
        name="acknowledgements-in-share-fetches",
        item="review",
        actions="ShareFetches of one session acknowledge records of 19,000 partitions that do not exist",
        run=_acknowledge_in_fetches,
        memory_mib=128,
    ),
    Attack(
        name="share-acknowledgements",
        item="review",
        actions="ShareAcknowledges of one session name 40,000 partitions",
        run=_acknowledge,
        memory_mib=160,
    ),
)
