"""The requests of the quorum, each about the one partition it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tidelog.cluster.quorum.log import SnapshotId
from tidelog.cluster.quorum.settings import QuorumSettings
from tidelog.cluster.quorum.topic import METADATA_PARTITION, METADATA_TOPIC_ID
from tidelog.cluster.quorum.voter_set import Endpoint, ReplicaKey, Voter
from tidelog.cluster.topic_names import CLUSTER_METADATA_TOPIC
from tidelog.protocol.ids import BrokerId, LeaderEpoch, Offset
from tidelog.protocol.messages import (
    add_raft_voter,
    begin_quorum_epoch,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    remove_raft_voter,
    update_raft_voter,
    vote,
)

E = TypeVar("E")


def vote_request(
    cluster_id: str,
    *,
    candidate: ReplicaKey,
    epoch: LeaderEpoch,
    voter: ReplicaKey,
    last_epoch: LeaderEpoch,
    end_offset: Offset,
    pre_vote: bool,
) -> vote.VoteRequest:
    """Ask `voter` to elect `candidate`, whose log ends like that."""
    partition = vote.RequestPartitionData(
        partition_index=METADATA_PARTITION,
        replica_epoch=epoch,
        replica_id=candidate.id,
        replica_directory_id=candidate.wire_directory_id,
        voter_directory_id=voter.wire_directory_id,
        last_offset_epoch=last_epoch,
        last_offset=end_offset,
        pre_vote=pre_vote,
    )
    topic = vote.RequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=(partition,))
    return vote.VoteRequest(cluster_id=cluster_id, voter_id=voter.id, topics=(topic,))


def begin_epoch_request(
    cluster_id: str,
    *,
    leader_id: BrokerId,
    epoch: LeaderEpoch,
    endpoints: tuple[Endpoint, ...],
    voter: ReplicaKey,
) -> begin_quorum_epoch.BeginQuorumEpochRequest:
    """Tell `voter` who leads."""
    partition = begin_quorum_epoch.RequestPartitionData(
        partition_index=METADATA_PARTITION,
        voter_directory_id=voter.wire_directory_id,
        leader_id=leader_id,
        leader_epoch=epoch,
    )
    return begin_quorum_epoch.BeginQuorumEpochRequest(
        cluster_id=cluster_id,
        voter_id=voter.id,
        topics=(
            begin_quorum_epoch.RequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=(partition,)),
        ),
        leader_endpoints=_addresses(begin_quorum_epoch.LeaderEndpoint, endpoints),
    )


def end_epoch_request(
    cluster_id: str,
    *,
    leader_id: BrokerId,
    epoch: LeaderEpoch,
    endpoints: tuple[Endpoint, ...],
    preferred: tuple[ReplicaKey, ...],
) -> end_quorum_epoch.EndQuorumEpochRequest:
    """Tell a voter that nobody leads any more, and who should."""
    partition = end_quorum_epoch.RequestPartitionData(
        partition_index=METADATA_PARTITION,
        leader_id=leader_id,
        leader_epoch=epoch,
        preferred_successors=tuple(each.id for each in preferred),
        preferred_candidates=tuple(
            end_quorum_epoch.ReplicaInfo(candidate_id=each.id, candidate_directory_id=each.wire_directory_id)
            for each in preferred
        ),
    )
    return end_quorum_epoch.EndQuorumEpochRequest(
        cluster_id=cluster_id,
        topics=(
            end_quorum_epoch.RequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=(partition,)),
        ),
        leader_endpoints=_addresses(end_quorum_epoch.LeaderEndpoint, endpoints),
    )


def fetch_request(
    cluster_id: str,
    settings: QuorumSettings,
    *,
    replica: ReplicaKey,
    epoch: LeaderEpoch,
    end_offset: Offset,
    last_epoch: LeaderEpoch,
    high_watermark: Offset,
) -> fetch.FetchRequest:
    """Ask for what follows `end_offset`, and say that everything before it is durable here."""
    partition = fetch.FetchPartition(
        partition=METADATA_PARTITION,
        current_leader_epoch=epoch,
        fetch_offset=end_offset,
        last_fetched_epoch=last_epoch,
        partition_max_bytes=settings.fetch_max_bytes,
        replica_directory_id=replica.wire_directory_id,
        high_watermark=high_watermark,
    )
    return fetch.FetchRequest(
        cluster_id=cluster_id,
        replica_state=fetch.ReplicaState(replica_id=replica.id),
        max_wait_ms=settings.fetch_max_wait_ms,
        max_bytes=settings.fetch_max_bytes,
        topics=(
            fetch.FetchTopic(
                topic=CLUSTER_METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=(partition,)
            ),
        ),
    )


def fetch_snapshot_request(
    cluster_id: str,
    settings: QuorumSettings,
    *,
    replica: ReplicaKey,
    epoch: LeaderEpoch,
    snapshot_id: SnapshotId,
    position: int,
) -> fetch_snapshot.FetchSnapshotRequest:
    """Ask for the next piece of a snapshot."""
    partition = fetch_snapshot.RequestPartitionSnapshot(
        partition=METADATA_PARTITION,
        current_leader_epoch=epoch,
        snapshot_id=fetch_snapshot.RequestSnapshotId(
            end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch
        ),
        position=position,
        replica_directory_id=replica.wire_directory_id,
    )
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=cluster_id,
        replica_id=replica.id,
        max_bytes=settings.snapshot_chunk_max_bytes,
        topics=(fetch_snapshot.RequestTopicSnapshot(name=CLUSTER_METADATA_TOPIC, partitions=(partition,)),),
    )


def update_voter_request(
    cluster_id: str, *, epoch: LeaderEpoch, voter: Voter
) -> update_raft_voter.UpdateRaftVoterRequest:
    """Tell the leader of endpoints and versions that the voter set does not have."""
    return update_raft_voter.UpdateRaftVoterRequest(
        cluster_id=cluster_id,
        current_leader_epoch=epoch,
        voter_id=voter.id,
        voter_directory_id=voter.key.wire_directory_id,
        listeners=_addresses(update_raft_voter.Listener, voter.endpoints),
        k_raft_version_feature=update_raft_voter.KRaftVersionFeature(
            min_supported_version=voter.kraft_version_min, max_supported_version=voter.kraft_version_max
        ),
    )


def add_voter_request(
    cluster_id: str, *, voter: Voter, timeout_ms: int
) -> add_raft_voter.AddRaftVoterRequest:
    """Ask to become a voter (KIP-1186); answered as soon as it is in the log, for then it must be fetched."""
    return add_raft_voter.AddRaftVoterRequest(
        cluster_id=cluster_id,
        timeout_ms=timeout_ms,
        voter_id=voter.id,
        voter_directory_id=voter.key.wire_directory_id,
        listeners=_addresses(add_raft_voter.Listener, voter.endpoints),
        ack_when_committed=False,
    )


def remove_voter_request(cluster_id: str, replica: ReplicaKey) -> remove_raft_voter.RemoveRaftVoterRequest:
    """Ask that the voter which this node was before it lost its directory goes."""
    return remove_raft_voter.RemoveRaftVoterRequest(
        cluster_id=cluster_id, voter_id=replica.id, voter_directory_id=replica.wire_directory_id
    )


def _addresses(kind: Callable[..., E], endpoints: tuple[Endpoint, ...]) -> tuple[E, ...]:
    return tuple(kind(name=name, host=host, port=port) for name, host, port in endpoints)
