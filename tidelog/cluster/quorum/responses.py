"""The responses of the quorum; each contains the leader that the responding replica knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from tidelog.base.dataclass import dataclass
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
# By API key: the first version whose response contains the leader's endpoint.
_ENDPOINT_SINCE: Final[dict[int, int]] = {52: 1, 53: 1, 54: 1, 1: 16, 59: 1}


@dataclass(frozen=True, slots=True)
class CurrentLeader:
    """The leader in a response: `leader_id` is -1 and `endpoint` is None if unknown."""

    leader_id: int
    epoch: LeaderEpoch
    endpoint: Endpoint | None


@dataclass(frozen=True, slots=True)
class LeaderAndEpoch:
    """The epoch, its leader (None if unknown) and all known endpoints of the leader."""

    epoch: LeaderEpoch
    leader_id: BrokerId | None
    endpoints: tuple[Endpoint, ...]

    def for_request(self, request: RequestReceived, default_listener: str) -> CurrentLeader:
        """Return the leader for the response to `request`, with the endpoint of the request's listener.

        The endpoint is that of `default_listener` if the leader does not have the listener, and None if
        the request's version does not contain endpoints.
        """
        leader_id = NO_LEADER if self.leader_id is None else self.leader_id
        return CurrentLeader(leader_id, self.epoch, self._endpoint_for(request, default_listener))

    def _endpoint_for(self, request: RequestReceived, default_listener: str) -> Endpoint | None:
        since = _ENDPOINT_SINCE.get(request.message.api_key, 0)
        if self.leader_id is None or (request.version is not None and request.version < since):
            return None
        for name in (request.listener_name or default_listener, default_listener):
            for endpoint in self.endpoints:
                if endpoint.listener_name == name:
                    return endpoint
        return self.endpoints[0] if self.endpoints else None


def top_level_error(request: ApiMessage, error: ErrorCode) -> ApiMessage:
    """Return the response to a request that is not for this cluster or not for its metadata partition."""
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


def vote_response(leader: CurrentLeader, error: ErrorCode, *, granted: bool) -> vote.VoteResponse:
    """Return a VoteResponse, which grants or rejects the vote."""
    return _epoch_response(vote, vote.VoteResponse, leader, error, vote_granted=granted)


def begin_epoch_response(
    leader: CurrentLeader, error: ErrorCode
) -> begin_quorum_epoch.BeginQuorumEpochResponse:
    """Return a BeginQuorumEpochResponse; NONE acknowledges the leader."""
    return _epoch_response(begin_quorum_epoch, begin_quorum_epoch.BeginQuorumEpochResponse, leader, error)


def end_epoch_response(leader: CurrentLeader, error: ErrorCode) -> end_quorum_epoch.EndQuorumEpochResponse:
    """Return an EndQuorumEpochResponse; NONE acknowledges the resignation."""
    return _epoch_response(end_quorum_epoch, end_quorum_epoch.EndQuorumEpochResponse, leader, error)


def _epoch_response(
    module: Any, response: Callable[..., A], leader: CurrentLeader, error: ErrorCode, **fields: bool
) -> A:
    """Return a response to Vote, BeginQuorumEpoch or EndQuorumEpoch; `module` contains its structs."""
    partition = module.ResponsePartitionData(
        partition_index=METADATA_PARTITION,
        error_code=error,
        leader_id=leader.leader_id,
        leader_epoch=leader.epoch,
        **fields,
    )
    topic = module.ResponseTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=(partition,))
    return response(topics=(topic,), node_endpoints=_node_endpoints(module.NodeEndpoint, leader))


def fetch_response(
    leader: CurrentLeader,
    *,
    high_watermark: Offset | None,
    log_start_offset: Offset,
    records: bytes | memoryview = b"",
    divergence: EpochEnd | SnapshotId | None = None,
) -> fetch.FetchResponse:
    """Return a FetchResponse with records, a diverging epoch, or the snapshot that must be fetched.

    `high_watermark` is None if the leader does not know it yet.
    """
    fields: dict[str, Any] = {}
    if isinstance(divergence, EpochEnd):
        end = fetch.EpochEndOffset(epoch=divergence.epoch, end_offset=divergence.end_offset)
        fields["diverging_epoch"] = end
    elif divergence is not None:
        fields["snapshot_id"] = fetch.SnapshotId(end_offset=divergence.end_offset, epoch=divergence.epoch)
    partition = fetch.PartitionData(
        partition_index=METADATA_PARTITION,
        error_code=ErrorCode.NONE,
        high_watermark=NO_HIGH_WATERMARK if high_watermark is None else high_watermark,
        log_start_offset=log_start_offset,
        current_leader=_leader_id_and_epoch(leader),
        records=records,
        **fields,
    )
    return _fetch_response(leader, partition)


def fetch_error_response(leader: CurrentLeader, error: ErrorCode) -> fetch.FetchResponse:
    """Return a FetchResponse with an error of the partition."""
    partition = fetch.PartitionData(
        partition_index=METADATA_PARTITION,
        error_code=error,
        high_watermark=NO_HIGH_WATERMARK,
        log_start_offset=-1,
        current_leader=_leader_id_and_epoch(leader),
        records=b"",
    )
    return _fetch_response(leader, partition)


def _leader_id_and_epoch(leader: CurrentLeader) -> fetch.LeaderIdAndEpoch:
    return fetch.LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.epoch)


def _fetch_response(leader: CurrentLeader, partition: fetch.PartitionData) -> fetch.FetchResponse:
    topic = fetch.FetchableTopicResponse(
        topic=CLUSTER_METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=(partition,)
    )
    return fetch.FetchResponse(responses=(topic,), node_endpoints=_node_endpoints(fetch.NodeEndpoint, leader))


@dataclass(frozen=True, slots=True)
class SnapshotChunk:
    """Bytes of a snapshot from `position`; `size` is the size of the whole snapshot."""

    snapshot_id: SnapshotId
    size: int
    position: int
    data: bytes | memoryview


_NO_CHUNK: Final = SnapshotChunk(SnapshotId(0, 0), 0, 0, b"")


def fetch_snapshot_response(
    leader: CurrentLeader, error: ErrorCode, chunk: SnapshotChunk = _NO_CHUNK
) -> fetch_snapshot.FetchSnapshotResponse:
    """Return a FetchSnapshotResponse with a chunk of a snapshot, or with an error."""
    module = fetch_snapshot
    partition = module.ResponsePartitionSnapshot(
        index=METADATA_PARTITION,
        error_code=error,
        snapshot_id=module.ResponseSnapshotId(
            end_offset=chunk.snapshot_id.end_offset, epoch=chunk.snapshot_id.epoch
        ),
        current_leader=module.LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.epoch),
        size=chunk.size,
        position=chunk.position,
        unaligned_records=chunk.data,
    )
    topic = module.ResponseTopicSnapshot(name=CLUSTER_METADATA_TOPIC, partitions=(partition,))
    return module.FetchSnapshotResponse(
        topics=(topic,), node_endpoints=_node_endpoints(module.NodeEndpoint, leader)
    )


def update_voter_response(
    leader: CurrentLeader, error: ErrorCode
) -> update_raft_voter.UpdateRaftVoterResponse:
    """Return an UpdateRaftVoterResponse; NONE acknowledges the voter's new entry."""
    endpoint = leader.endpoint
    current_leader = update_raft_voter.CurrentLeader(
        leader_id=leader.leader_id,
        leader_epoch=leader.epoch,
        host="" if endpoint is None else endpoint.host,
        port=0 if endpoint is None else endpoint.port,
    )
    return update_raft_voter.UpdateRaftVoterResponse(error_code=error, current_leader=current_leader)


def _node_endpoints(kind: Callable[..., N], leader: CurrentLeader) -> tuple[N, ...]:
    """Return the `node_endpoints` field of a response: the leader's endpoint if it is known."""
    endpoint = leader.endpoint
    if endpoint is None:
        return ()
    return (kind(node_id=leader.leader_id, host=endpoint.host, port=endpoint.port),)
