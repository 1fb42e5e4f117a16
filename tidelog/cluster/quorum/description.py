"""What a replica knows of the quorum, as DescribeQuorum answers it.

Source: KIP-595, KIP-836 (timestamps), KIP-853 (directory ids, endpoints).
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from tidelog.cluster.quorum.events import RequestReceived
from tidelog.cluster.quorum.leader_news import leader_refusal
from tidelog.cluster.quorum.leading import Leading, Position
from tidelog.cluster.quorum.replica import Replica
from tidelog.cluster.quorum.responses import NO_HIGH_WATERMARK
from tidelog.cluster.quorum.topic import METADATA_PARTITION, only_partition
from tidelog.cluster.quorum.voter_set import VoterSet
from tidelog.cluster.topic_names import CLUSTER_METADATA_TOPIC
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import BrokerId, LeaderEpoch, Offset
from tidelog.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)
from tidelog.protocol.schema import ZERO_UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaDescription:
    """How far a replica has come, as its leader sees it; times in ms since the epoch."""

    replica_id: BrokerId
    directory_id: UUID | None
    log_end_offset: Offset | None
    last_fetch_timestamp_ms: int | None
    last_caught_up_timestamp_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumDescription:
    """The quorum; only a leader knows of positions, elsewhere `voters` and `observers` are empty."""

    leader_id: BrokerId | None
    leader_epoch: LeaderEpoch
    high_watermark: Offset | None
    voter_set: VoterSet
    voters: tuple[ReplicaDescription, ...]
    observers: tuple[ReplicaDescription, ...]


def describe(replica: Replica, now_ms: int) -> QuorumDescription:
    """As far as this replica knows."""
    leading = replica.role
    voters: tuple[ReplicaDescription, ...] = ()
    observers: tuple[ReplicaDescription, ...] = ()
    high_watermark: Offset | None = replica.log.high_watermark
    if isinstance(leading, Leading):
        settings = replica.settings
        leading.expire_observers(now_ms - settings.observer_session_timeout_ms, settings.observers_max)
        high_watermark = leading.high_watermark
        voters = tuple(_described(replica, each, now_ms) for each in leading.voters.values())
        observers = tuple(_described(replica, each, now_ms) for each in leading.observers.values())
    return QuorumDescription(
        leader_id=replica.leader_id,
        leader_epoch=replica.epoch,
        high_watermark=high_watermark,
        voter_set=replica.voters,
        voters=voters,
        observers=observers,
    )


def _described(replica: Replica, position: Position, now_ms: int) -> ReplicaDescription:
    wall_ms = replica.wall_ms()
    is_self = position.key.id == replica.id and replica.is_same(position.key, replica.key)

    def at(moment_ms: int | None) -> int | None:
        return None if moment_ms is None else wall_ms - (now_ms - moment_ms)

    return ReplicaDescription(
        replica_id=position.key.id,
        directory_id=position.key.directory_id,
        log_end_offset=replica.log.end_offset if is_self else position.end_offset,
        last_fetch_timestamp_ms=wall_ms if is_self else at(position.last_fetch_ms),
        last_caught_up_timestamp_ms=wall_ms if is_self else at(position.last_caught_up_ms),
    )


def handle_request(replica: Replica, received: RequestReceived, now_ms: int) -> None:
    """DescribeQuorum, which only a leader answers."""
    request = received.message
    assert isinstance(request, DescribeQuorumRequest)
    if only_partition(request.topics, "topic_name", "partition_index") is None:
        response = DescribeQuorumResponse(
            topics=tuple(
                ResponseTopicData(
                    topic_name=topic.topic_name,
                    partitions=tuple(
                        ResponsePartitionData(
                            partition_index=each.partition_index,
                            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                            error_message=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.text,
                        )
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )
        replica.outbox.respond(received, response)
        return
    error = leader_refusal(replica, replica.epoch)
    if error is ErrorCode.NONE:
        response = _response(describe(replica, now_ms), received.version)
    else:
        partition = ResponsePartitionData(
            partition_index=METADATA_PARTITION,
            error_code=error,
            error_message=error.text,
            leader_id=replica.leadership().wire_leader_id,
            leader_epoch=replica.epoch,
        )
        topic = ResponseTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=(partition,))
        response = DescribeQuorumResponse(topics=(topic,), error_message=None)
    replica.outbox.respond(received, response)


def _response(description: QuorumDescription, version: int | None) -> DescribeQuorumResponse:
    is_dynamic = version is None or version >= 2
    high_watermark = description.high_watermark
    partition = ResponsePartitionData(
        partition_index=METADATA_PARTITION,
        error_message=None,
        leader_id=-1 if description.leader_id is None else description.leader_id,
        leader_epoch=description.leader_epoch,
        high_watermark=NO_HIGH_WATERMARK if high_watermark is None else high_watermark,
        current_voters=tuple(_state(each, is_dynamic) for each in description.voters),
        observers=tuple(_state(each, is_dynamic) for each in description.observers),
    )
    nodes = tuple(
        Node(
            node_id=voter.id,
            listeners=tuple(
                Listener(name=name, host=host, port=port) for name, host, port in voter.endpoints
            ),
        )
        for voter in description.voter_set
    )
    return DescribeQuorumResponse(
        error_message=None,
        topics=(ResponseTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=(partition,)),),
        nodes=nodes if is_dynamic else (),
    )


def _state(described: ReplicaDescription, is_dynamic: bool) -> ReplicaState:
    directory_id = described.directory_id if is_dynamic else None
    return ReplicaState(
        replica_id=described.replica_id,
        replica_directory_id=ZERO_UUID if directory_id is None else directory_id,
        log_end_offset=_or_minus_one(described.log_end_offset),
        last_fetch_timestamp=_or_minus_one(described.last_fetch_timestamp_ms),
        last_caught_up_timestamp=_or_minus_one(described.last_caught_up_timestamp_ms),
    )


def _or_minus_one(number: int | None) -> int:
    return -1 if number is None else number
