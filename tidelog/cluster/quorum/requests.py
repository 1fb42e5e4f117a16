"""The requests of the quorum, each for the metadata partition only."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tidelog.cluster.quorum.config import ReplicaConfig
from tidelog.cluster.quorum.log import ReadableRaftLog
from tidelog.cluster.quorum.states import SnapshotFetch
from tidelog.cluster.quorum.topic import METADATA_PARTITION, METADATA_TOPIC_ID
from tidelog.cluster.quorum.voter_set import Endpoint, ReplicaKey, Voter
from tidelog.cluster.topic_names import CLUSTER_METADATA_TOPIC
from tidelog.protocol.ids import LeaderEpoch
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
    config: ReplicaConfig, voter: ReplicaKey, epoch: LeaderEpoch, log: ReadableRaftLog, *, pre_vote: bool
) -> vote.VoteRequest:
    """Return the request to `voter` to vote in `epoch` for this replica, whose log is `log`."""
    partition = vote.RequestPartitionData(
        partition_index=METADATA_PARTITION,
        replica_epoch=epoch,
        replica_id=config.id,
        replica_directory_id=config.key.wire_directory_id,
        voter_directory_id=voter.wire_directory_id,
        last_offset_epoch=log.last_epoch,
        last_offset=log.end_offset,
        pre_vote=pre_vote,
    )
    topic = vote.RequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=(partition,))
    return vote.VoteRequest(cluster_id=config.cluster_id, voter_id=voter.id, topics=(topic,))


def begin_epoch_request(
    config: ReplicaConfig, voter: ReplicaKey, epoch: LeaderEpoch, endpoints: tuple[Endpoint, ...]
) -> begin_quorum_epoch.BeginQuorumEpochRequest:
    """Return the notification to `voter` that this replica, with `endpoints`, is the leader of `epoch`."""
    partition = begin_quorum_epoch.RequestPartitionData(
        partition_index=METADATA_PARTITION,
        voter_directory_id=voter.wire_directory_id,
        leader_id=config.id,
        leader_epoch=epoch,
    )
    topic = begin_quorum_epoch.RequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=(partition,))
    return begin_quorum_epoch.BeginQuorumEpochRequest(
        cluster_id=config.cluster_id,
        voter_id=voter.id,
        topics=(topic,),
        leader_endpoints=_listeners(begin_quorum_epoch.LeaderEndpoint, endpoints),
    )


def end_epoch_request(
    config: ReplicaConfig,
    epoch: LeaderEpoch,
    endpoints: tuple[Endpoint, ...],
    preferred: tuple[ReplicaKey, ...],
) -> end_quorum_epoch.EndQuorumEpochRequest:
    """Return the notification that this replica has resigned in `epoch`; `preferred` are the successors."""
    partition = end_quorum_epoch.RequestPartitionData(
        partition_index=METADATA_PARTITION,
        leader_id=config.id,
        leader_epoch=epoch,
        preferred_successors=tuple(each.id for each in preferred),
        preferred_candidates=tuple(
            end_quorum_epoch.ReplicaInfo(candidate_id=each.id, candidate_directory_id=each.wire_directory_id)
            for each in preferred
        ),
    )
    topic = end_quorum_epoch.RequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=(partition,))
    return end_quorum_epoch.EndQuorumEpochRequest(
        cluster_id=config.cluster_id,
        topics=(topic,),
        leader_endpoints=_listeners(end_quorum_epoch.LeaderEndpoint, endpoints),
    )


def fetch_request(config: ReplicaConfig, epoch: LeaderEpoch, log: ReadableRaftLog) -> fetch.FetchRequest:
    """Return the request for the records after `log`; it acknowledges that the whole log is durable."""
    settings = config.settings
    partition = fetch.FetchPartition(
        partition=METADATA_PARTITION,
        current_leader_epoch=epoch,
        fetch_offset=log.end_offset,
        last_fetched_epoch=log.last_epoch,
        partition_max_bytes=settings.fetch_max_bytes,
        replica_directory_id=config.key.wire_directory_id,
        high_watermark=log.high_watermark,
    )
    topic = fetch.FetchTopic(
        topic=CLUSTER_METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=(partition,)
    )
    return fetch.FetchRequest(
        cluster_id=config.cluster_id,
        replica_state=fetch.ReplicaState(replica_id=config.id),
        max_wait_ms=settings.fetch_max_wait_ms,
        max_bytes=settings.fetch_max_bytes,
        topics=(topic,),
    )


def fetch_snapshot_request(
    config: ReplicaConfig, epoch: LeaderEpoch, snapshot: SnapshotFetch
) -> fetch_snapshot.FetchSnapshotRequest:
    """Return the request for the next chunk of a snapshot."""
    snapshot_id = snapshot.snapshot_id
    partition = fetch_snapshot.RequestPartitionSnapshot(
        partition=METADATA_PARTITION,
        current_leader_epoch=epoch,
        snapshot_id=fetch_snapshot.RequestSnapshotId(
            end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch
        ),
        position=snapshot.position,
        replica_directory_id=config.key.wire_directory_id,
    )
    topic = fetch_snapshot.RequestTopicSnapshot(name=CLUSTER_METADATA_TOPIC, partitions=(partition,))
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=config.cluster_id,
        replica_id=config.id,
        max_bytes=config.settings.snapshot_chunk_max_bytes,
        topics=(topic,),
    )


def update_voter_request(
    config: ReplicaConfig, epoch: LeaderEpoch, voter: Voter
) -> update_raft_voter.UpdateRaftVoterRequest:
    """Return the report of endpoints and versions of this voter that the voter set does not contain."""
    return update_raft_voter.UpdateRaftVoterRequest(
        cluster_id=config.cluster_id,
        current_leader_epoch=epoch,
        voter_id=voter.id,
        voter_directory_id=voter.key.wire_directory_id,
        listeners=_listeners(update_raft_voter.Listener, voter.endpoints),
        k_raft_version_feature=update_raft_voter.KRaftVersionFeature(
            min_supported_version=voter.kraft_version_min, max_supported_version=voter.kraft_version_max
        ),
    )


def add_voter_request(config: ReplicaConfig, voter: Voter) -> add_raft_voter.AddRaftVoterRequest:
    """Return the request to add this replica as a voter (KIP-1186).

    The leader responds as soon as the record is in its log, because this replica must fetch the record.
    """
    return add_raft_voter.AddRaftVoterRequest(
        cluster_id=config.cluster_id,
        timeout_ms=config.settings.request_timeout_ms,
        voter_id=voter.id,
        voter_directory_id=voter.key.wire_directory_id,
        listeners=_listeners(add_raft_voter.Listener, voter.endpoints),
        ack_when_committed=False,
    )


def remove_voter_request(
    config: ReplicaConfig, voter: ReplicaKey
) -> remove_raft_voter.RemoveRaftVoterRequest:
    """Return the request to remove `voter`: this node with a directory that it no longer has."""
    return remove_raft_voter.RemoveRaftVoterRequest(
        cluster_id=config.cluster_id, voter_id=voter.id, voter_directory_id=voter.wire_directory_id
    )


def _listeners(kind: Callable[..., E], endpoints: tuple[Endpoint, ...]) -> tuple[E, ...]:
    return tuple(kind(name=name, host=host, port=port) for name, host, port in endpoints)
