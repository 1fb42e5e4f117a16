"""The answers of the quorum, each with who leads as far as the one who answers knows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from tidelog.cluster.quorum.events import RequestReceived
from tidelog.cluster.quorum.log import EpochEnd, SnapshotId
from tidelog.cluster.quorum.topic import METADATA_PARTITION, METADATA_TOPIC_ID
from tidelog.cluster.quorum.voter_set import Endpoint
from tidelog.cluster.topic_names import CLUSTER_METADATA_TOPIC
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import BrokerId, LeaderEpoch, Offset
from tidelog.protocol.messages import (
    begin_quorum_epoch,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    update_raft_voter,
    vote,
)
from tidelog.protocol.schema import ApiMessage

A = TypeVar("A")
N = TypeVar("N")

NO_LEADER: Final = -1
NO_HIGH_WATERMARK: Final = -1
# From these versions on an answer can name the leader's endpoint.
_ENDPOINT_SINCE: Final[dict[int, int]] = {52: 1, 53: 1, 54: 1, 1: 16, 59: 1}


@dataclass(frozen=True, slots=True)
class Leadership:
    """The epoch, and its leader as far as it is known."""

    epoch: LeaderEpoch
    leader_id: BrokerId | None
    endpoints: tuple[Endpoint, ...]

    @property
    def wire_leader_id(self) -> int:
        """As it stands in answers."""
        return NO_LEADER if self.leader_id is None else self.leader_id

    def endpoint_for(self, request: RequestReceived, listener_name: str) -> Endpoint | None:
        """What an answer says of the leader: its address at the listener the request came to."""
        since = _ENDPOINT_SINCE.get(request.message.api_key, 0)
        if self.leader_id is None or (request.version is not None and request.version < since):
            return None
        for name in (request.listener_name or listener_name, listener_name):
            for endpoint in self.endpoints:
                if endpoint.listener_name == name:
                    return endpoint
        return self.endpoints[0] if self.endpoints else None


def top_level_error(request: ApiMessage, error: ErrorCode) -> ApiMessage:
    """The answer to a request that is not for this cluster or not about its metadata."""
    return _RESPONSES[request.api_key](error_code=error)


_RESPONSES: Final[dict[int, Callable[..., ApiMessage]]] = {
    cls.api_key: cls
    for cls in (
        vote.VoteResponse,
        begin_quorum_epoch.BeginQuorumEpochResponse,
        end_quorum_epoch.EndQuorumEpochResponse,
        fetch.FetchResponse,
        fetch_snapshot.FetchSnapshotResponse,
    )
}


def vote_response(
    leadership: Leadership, endpoint: Endpoint | None, error: ErrorCode, *, granted: bool
) -> vote.VoteResponse:
    """Yes or no."""
    return _about_epoch(vote, vote.VoteResponse, leadership, endpoint, error, vote_granted=granted)


def begin_epoch_response(
    leadership: Leadership, endpoint: Endpoint | None, error: ErrorCode
) -> begin_quorum_epoch.BeginQuorumEpochResponse:
    """Understood, or not."""
    response = begin_quorum_epoch.BeginQuorumEpochResponse
    return _about_epoch(begin_quorum_epoch, response, leadership, endpoint, error)


def end_epoch_response(
    leadership: Leadership, endpoint: Endpoint | None, error: ErrorCode
) -> end_quorum_epoch.EndQuorumEpochResponse:
    """Understood, or not."""
    response = end_quorum_epoch.EndQuorumEpochResponse
    return _about_epoch(end_quorum_epoch, response, leadership, endpoint, error)


def _about_epoch(
    module: Any,
    response: Callable[..., A],
    leadership: Leadership,
    endpoint: Endpoint | None,
    error: ErrorCode,
    **more: bool,
) -> A:
    """What the answers to Vote, BeginQuorumEpoch and EndQuorumEpoch share; their structs are in `module`."""
    partition = module.ResponsePartitionData(
        partition_index=METADATA_PARTITION,
        error_code=error,
        leader_id=leadership.wire_leader_id,
        leader_epoch=leadership.epoch,
        **more,
    )
    topic = module.ResponseTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=(partition,))
    return response(topics=(topic,), node_endpoints=_nodes(module.NodeEndpoint, leadership, endpoint))


def fetch_response(
    leadership: Leadership,
    endpoint: Endpoint | None,
    *,
    error: ErrorCode = ErrorCode.NONE,
    high_watermark: Offset | None = None,
    log_start_offset: Offset = -1,
    records: bytes | memoryview = b"",
    diverging: EpochEnd | None = None,
    snapshot_id: SnapshotId | None = None,
) -> fetch.FetchResponse:
    """Records, or where the logs part, or which snapshot to fetch, or an error."""
    partition = fetch.PartitionData(
        partition_index=METADATA_PARTITION,
        error_code=error,
        high_watermark=NO_HIGH_WATERMARK if high_watermark is None else high_watermark,
        log_start_offset=log_start_offset,
        current_leader=fetch.LeaderIdAndEpoch(
            leader_id=leadership.wire_leader_id, leader_epoch=leadership.epoch
        ),
        records=records,
    )
    if diverging is not None:
        partition = replace(
            partition,
            diverging_epoch=fetch.EpochEndOffset(epoch=diverging.epoch, end_offset=diverging.end_offset),
        )
    if snapshot_id is not None:
        partition = replace(
            partition,
            snapshot_id=fetch.SnapshotId(end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch),
        )
    topic = fetch.FetchableTopicResponse(
        topic=CLUSTER_METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=(partition,)
    )
    return fetch.FetchResponse(
        responses=(topic,), node_endpoints=_nodes(fetch.NodeEndpoint, leadership, endpoint)
    )


def fetch_snapshot_response(
    leadership: Leadership,
    endpoint: Endpoint | None,
    *,
    error: ErrorCode = ErrorCode.NONE,
    snapshot_id: SnapshotId | None = None,
    size: int = 0,
    position: int = 0,
    piece: bytes | memoryview = b"",
) -> fetch_snapshot.FetchSnapshotResponse:
    """A piece of a snapshot, or an error."""
    module = fetch_snapshot
    named = SnapshotId(0, 0) if snapshot_id is None else snapshot_id
    partition = module.ResponsePartitionSnapshot(
        index=METADATA_PARTITION,
        error_code=error,
        snapshot_id=module.ResponseSnapshotId(end_offset=named.end_offset, epoch=named.epoch),
        current_leader=module.LeaderIdAndEpoch(
            leader_id=leadership.wire_leader_id, leader_epoch=leadership.epoch
        ),
        size=size,
        position=position,
        unaligned_records=piece,
    )
    topic = module.ResponseTopicSnapshot(name=CLUSTER_METADATA_TOPIC, partitions=(partition,))
    return module.FetchSnapshotResponse(
        topics=(topic,), node_endpoints=_nodes(module.NodeEndpoint, leadership, endpoint)
    )


def update_voter_response(
    leadership: Leadership, endpoint: Endpoint | None, error: ErrorCode
) -> update_raft_voter.UpdateRaftVoterResponse:
    """Understood, or not."""
    module = update_raft_voter
    leader = module.CurrentLeader(
        leader_id=leadership.wire_leader_id,
        leader_epoch=leadership.epoch,
        host="" if endpoint is None else endpoint.host,
        port=0 if endpoint is None else endpoint.port,
    )
    return module.UpdateRaftVoterResponse(error_code=error, current_leader=leader)


def _nodes(kind: Callable[..., N], leadership: Leadership, endpoint: Endpoint | None) -> tuple[N, ...]:
    """Where the leader is, when that is known."""
    if endpoint is None:
        return ()
    return (kind(node_id=leadership.wire_leader_id, host=endpoint.host, port=endpoint.port),)
