"""The state of the quorum that DescribeQuorum reports.

Source: KIP-595, KIP-836 (timestamps), KIP-853 (directory ids, endpoints).
"""

from __future__ import annotations

from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.cluster.quorum.events import RequestReceived
from tidelog.cluster.quorum.leader_state import LeaderState, ReplicaPosition
from tidelog.cluster.quorum.replica import Replica
from tidelog.cluster.quorum.responses import NO_HIGH_WATERMARK, NO_LEADER
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
    """The position of a replica as its leader knows it; times in ms since the epoch, None if unknown."""

    replica_id: BrokerId
    directory_id: UUID | None
    log_end_offset: Offset | None
    last_fetch_timestamp_ms: int | None
    last_caught_up_timestamp_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumDescription:
    """The quorum; `voters` and `observers` are empty unless the reporting replica is the leader."""

    leader_id: BrokerId | None
    leader_epoch: LeaderEpoch
    high_watermark: Offset | None
    voter_set: VoterSet
    voters: tuple[ReplicaDescription, ...]
    observers: tuple[ReplicaDescription, ...]


def describe(replica: Replica, now_ms: int) -> QuorumDescription:
    """Remove expired observers, and return the state of the quorum as `replica` knows it."""
    state, role = replica.quorum_state, replica.quorum_state.role
    voters: tuple[ReplicaDescription, ...] = ()
    observers: tuple[ReplicaDescription, ...] = ()
    high_watermark: Offset | None = replica.log.high_watermark
    if isinstance(role, LeaderState):
        positions = role.positions
        positions.expire_observers(now_ms)
        high_watermark = role.high_watermark
        voters = tuple(_description(replica, each, now_ms) for each in positions.voters.values())
        observers = tuple(_description(replica, each, now_ms) for each in positions.observers.values())
    return QuorumDescription(
        leader_id=state.leader_id,
        leader_epoch=state.epoch,
        high_watermark=high_watermark,
        voter_set=replica.membership.voters,
        voters=voters,
        observers=observers,
    )


def _description(replica: Replica, position: ReplicaPosition, now_ms: int) -> ReplicaDescription:
    config = replica.config
    wall_ms = config.wall_ms()
    is_self = config.is_same_replica(position.key, config.key)

    def timestamp_ms(time_ms: int | None) -> int | None:
        return None if time_ms is None else wall_ms - (now_ms - time_ms)

    return ReplicaDescription(
        replica_id=position.key.id,
        directory_id=position.key.directory_id,
        log_end_offset=replica.log.end_offset if is_self else position.end_offset,
        last_fetch_timestamp_ms=wall_ms if is_self else timestamp_ms(position.last_fetch_ms),
        last_caught_up_timestamp_ms=wall_ms if is_self else timestamp_ms(position.last_caught_up_ms),
    )


def handle_request(replica: Replica, received: RequestReceived, now_ms: int) -> None:
    """Respond to DescribeQuorum; a replica that is not the leader responds with an error."""
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
    state = replica.quorum_state
    error = state.leader_error(state.epoch)
    if error is ErrorCode.NONE:
        response = _response(describe(replica, now_ms), received.version)
    else:
        partition = ResponsePartitionData(
            partition_index=METADATA_PARTITION,
            error_code=error,
            error_message=error.text,
            leader_id=NO_LEADER if state.leader_id is None else state.leader_id,
            leader_epoch=state.epoch,
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
        leader_id=NO_LEADER if description.leader_id is None else description.leader_id,
        leader_epoch=description.leader_epoch,
        high_watermark=NO_HIGH_WATERMARK if high_watermark is None else high_watermark,
        current_voters=tuple(_replica_state(each, is_dynamic) for each in description.voters),
        observers=tuple(_replica_state(each, is_dynamic) for each in description.observers),
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


def _replica_state(replica: ReplicaDescription, is_dynamic: bool) -> ReplicaState:
    directory_id = replica.directory_id if is_dynamic else None
    return ReplicaState(
        replica_id=replica.replica_id,
        replica_directory_id=ZERO_UUID if directory_id is None else directory_id,
        log_end_offset=_minus_one_if_none(replica.log_end_offset),
        last_fetch_timestamp=_minus_one_if_none(replica.last_fetch_timestamp_ms),
        last_caught_up_timestamp=_minus_one_if_none(replica.last_caught_up_timestamp_ms),
    )


def _minus_one_if_none(number: int | None) -> int:
    return -1 if number is None else number
