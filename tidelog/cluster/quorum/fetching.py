"""The follower's side of replication: fetch, append, truncate, load snapshots; and look for the leader.

Source: KIP-595 (Fetch with diverging epochs), KIP-630 (snapshots), KIP-853 (bootstrap servers,
UpdateRaftVoter), KIP-1186 (observing controllers that join by themselves).
"""

from __future__ import annotations

from typing import Final

from tidelog.cluster.quorum import elections
from tidelog.cluster.quorum.effects import HighWatermark, SnapshotLoaded
from tidelog.cluster.quorum.leader_news import leader_endpoints, observe, observe_answer
from tidelog.cluster.quorum.log import EpochEnd, SnapshotId
from tidelog.cluster.quorum.replica import Replica
from tidelog.cluster.quorum.requests import (
    add_voter_request,
    fetch_request,
    fetch_snapshot_request,
    remove_voter_request,
    update_voter_request,
)
from tidelog.cluster.quorum.states import Following, SnapshotFetch, Unattached
from tidelog.cluster.quorum.topic import only_fetched_partition, only_partition
from tidelog.cluster.quorum.voter_set import KRAFT_VERSION_STATIC, Endpoint
from tidelog.protocol.batch import crc_is_valid, iterate_headers
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, LeaderEpoch, Offset
from tidelog.protocol.messages.fetch import FetchResponse, PartitionData
from tidelog.protocol.messages.fetch_snapshot import FetchSnapshotResponse
from tidelog.protocol.messages.update_raft_voter import UpdateRaftVoterResponse
from tidelog.protocol.schema import ApiMessage

FIRST_BOOTSTRAP_ID: Final = -2
"""Bootstrap servers have no id that is known: they are numbered downwards from here, as in Kafka."""


class CommittedRecordsLost(AssertionError):
    """The leader asks to truncate what was committed: the process must end, its log left as it is."""


def poll_unattached(replica: Replica, unattached: Unattached, now_ms: int) -> int | None:
    """Look for the leader; a voter stands for election when it has waited long enough."""
    if replica.may_stand and now_ms >= unattached.deadline_ms:
        elections.stand(replica, now_ms)
        return now_ms
    due_ms = _fetch_from_any(replica, now_ms)
    if not replica.may_stand:
        return due_ms
    return unattached.deadline_ms if due_ms is None else min(due_ms, unattached.deadline_ms)


def poll_following(replica: Replica, following: Following, now_ms: int) -> int:
    """Fetch; a voter that the leader does not answer for too long stands for election."""
    if replica.may_stand and now_ms >= following.deadline_ms:
        elections.stand(replica, now_ms)
        return now_ms
    if now_ms >= following.deadline_ms:
        # An observer does not wait for what it asked of a silent leader: others may know a new one.
        # Nor does it refuse pre-votes for that leader's sake: it may be a voter for others already.
        replica.connections.reset()
        following.has_fetched = False
        following.deadline_ms = now_ms + replica.settings.fetch_timeout_ms
        following.leader_failed = True
    due_ms: int | None = None
    if not replica.may_stand and following.leader_failed:
        due_ms = _fetch_from_any(replica, now_ms, but=following.leader_id)
    elif replica.connections.is_ready(following.leader_id, now_ms):
        if now_ms < following.update_voter_at_ms or not _ask_for_change(replica, following, now_ms):
            _fetch_from_leader(replica, following, now_ms)
    else:
        due_ms = replica.connections.ready_at(following.leader_id)
    return following.deadline_ms if due_ms is None else min(due_ms, following.deadline_ms)


def _fetch_from_leader(replica: Replica, following: Following, now_ms: int) -> None:
    snapshot = following.snapshot
    if snapshot is None:
        _fetch(replica, following.leader_id, following.endpoints, now_ms)
        return
    request = fetch_snapshot_request(
        replica.cluster_id,
        replica.settings,
        replica=replica.key,
        epoch=replica.epoch,
        snapshot_id=snapshot.snapshot_id,
        position=snapshot.position,
    )
    replica.connections.send(following.leader_id, following.endpoints, request, now_ms)


def _fetch(replica: Replica, node_id: BrokerId, endpoints: tuple[Endpoint, ...], now_ms: int) -> None:
    log = replica.log
    if replica.has_unflushed:
        replica.has_unflushed = False
        _flush(replica)
    request = fetch_request(
        replica.cluster_id,
        replica.settings,
        replica=replica.key,
        epoch=replica.epoch,
        end_offset=log.end_offset,
        last_epoch=log.last_epoch,
        high_watermark=log.high_watermark,
    )
    wait_ms = replica.settings.fetch_max_wait_ms
    replica.connections.send(node_id, endpoints, request, now_ms, wait_ms=wait_ms)


def _flush(replica: Replica) -> None:
    """A fetch says that all before its offset is durable, so that must be so first."""
    replica.rules.persist_log(replica.outbox, replica.log.end_offset)


def _fetch_from_any(replica: Replica, now_ms: int, *, but: BrokerId | None = None) -> int | None:
    """Ask a voter or a bootstrap server, drawn by lot, `but` when there is no other; when to come back."""
    connections = replica.connections
    if connections.any_waiting:
        return None
    nodes = [(voter.id, voter.endpoints) for voter in replica.voters if voter.id != replica.id]
    own = {(endpoint.host, endpoint.port) for endpoint in replica.endpoints}
    nodes += [
        (FIRST_BOOTSTRAP_ID - number, (endpoint,))
        for number, endpoint in enumerate(replica.bootstrap)
        if (endpoint.host, endpoint.port) not in own
    ]
    nodes = [node for node in nodes if node[0] != but] or nodes
    ready = [node for node in nodes if connections.is_ready(node[0], now_ms)]
    if ready:
        node_id, endpoints = ready[replica.random_below(len(ready))]
        _fetch(replica, node_id, endpoints, now_ms)
        return None
    return min((connections.ready_at(node[0]) or now_ms + 1 for node in nodes), default=None)


def _ask_for_change(replica: Replica, following: Following, now_ms: int) -> bool:
    """From time to time: have the voter set say what is true of this replica."""
    following.update_voter_at_ms = now_ms + replica.settings.update_voter_interval_ms
    own = replica.own_voter
    if not own.endpoints:
        return False
    is_static = replica.history.kraft_version == KRAFT_VERSION_STATIC
    known = replica.voters.by_id.get(replica.id)
    request: ApiMessage
    if known is not None and replica.is_voter:
        # The leader remembers what static voters tell it, for the day of their upgrade (KIP-853).
        if known == own or (is_static and following.has_told):
            return False
        following.has_told = True
        request = update_voter_request(replica.cluster_id, epoch=replica.epoch, voter=own)
    elif is_static or not replica.settings.auto_join or not following.has_fetched:
        return False
    elif known is not None:
        request = remove_voter_request(replica.cluster_id, known.key)
    else:
        timeout_ms = replica.settings.request_timeout_ms
        request = add_voter_request(replica.cluster_id, voter=own, timeout_ms=timeout_ms)
    replica.connections.send(following.leader_id, following.endpoints, request, now_ms)
    return True


def failed(replica: Replica, node_id: BrokerId) -> None:
    """A request was not answered, or with an error: an observer turns to somebody else."""
    following = replica.role
    if isinstance(following, Following):
        following.leader_failed = node_id == following.leader_id


def handle_fetch_response(replica: Replica, message: ApiMessage, now_ms: int) -> bool:
    """Take in what the leader sent; False when there should be a pause before the next request."""
    assert isinstance(message, FetchResponse)
    partition: PartitionData | None = only_fetched_partition(message.responses, "partition_index")
    if message.error_code != ErrorCode.NONE or partition is None:
        return False
    leader = partition.current_leader
    handled = observe_answer(replica, partition.error_code, leader, message.node_endpoints, now_ms)
    if handled is not None:
        return handled
    following = replica.role
    if partition.error_code != ErrorCode.NONE or not isinstance(following, Following):
        return False
    if leader.leader_id != following.leader_id:
        return False
    if partition.diverging_epoch.epoch >= 0:
        end = EpochEnd(partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset)
        if not _has_truncated(replica, end):
            return False
    elif partition.snapshot_id.epoch >= 0 or partition.snapshot_id.end_offset >= 0:
        snapshot_id = SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
        if snapshot_id.epoch < 0 or snapshot_id.end_offset <= replica.log.high_watermark:
            return False
        following.snapshot = SnapshotFetch(snapshot_id)
    elif not _append(replica, partition):
        return False
    _heard(replica, following, now_ms)
    return True


def _heard(replica: Replica, following: Following, now_ms: int) -> None:
    following.deadline_ms = now_ms + replica.settings.fetch_timeout_ms
    following.has_fetched = True
    following.leader_failed = False


def _has_truncated(replica: Replica, leader_end: EpochEnd) -> bool:
    """Truncate to the largest offset that is known to be shared with the leader (KIP-279).

    False when the log could not do so yet: the next fetch leads here again.
    """
    log = replica.log
    own_end = log.end_offset_for_epoch(leader_end.epoch)
    offset = own_end.end_offset
    if own_end.epoch == leader_end.epoch:
        offset = min(offset, leader_end.end_offset)
    if not replica.rules.may_truncate_to(offset, log.high_watermark):
        raise CommittedRecordsLost(
            f"leader {replica.leader_id} of epoch {replica.epoch} has epoch {leader_end.epoch} end at "
            f"{leader_end.end_offset}; that would truncate to {offset}, committed is {log.high_watermark}"
        )
    try:
        replica.truncate(offset)
    except KafkaError as error:
        if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
            raise
        return False
    return True


def _append(replica: Replica, partition: PartitionData) -> bool:
    """Add the records, if any; False when they are not what follows the log."""
    log = replica.log
    records = partition.records
    if records:
        last_epoch = _checked(records, log.end_offset, log.last_epoch, replica.epoch)
        if last_epoch is None or not replica.has_appended(records, last_epoch):
            return False
        _flush(replica)
    high_watermark = min(partition.high_watermark, log.end_offset)
    if high_watermark > log.high_watermark:
        log.advance_high_watermark(high_watermark)
        replica.history.trim(log.start_offset)
        replica.outbox.add(HighWatermark(high_watermark))
    return True


def _checked(
    records: bytes | memoryview, offset: Offset, last_epoch: LeaderEpoch, epoch: LeaderEpoch
) -> LeaderEpoch | None:
    """The epoch of the last batch when all are whole, continue the log and are of epochs that were led."""
    try:
        for position, header in iterate_headers(records):
            if header.base_offset != offset or not crc_is_valid(records, position, header):
                return None
            if not last_epoch <= header.partition_leader_epoch <= epoch:
                return None
            offset, last_epoch = header.next_offset, header.partition_leader_epoch
    except DecodeError:
        return None
    return last_epoch


def handle_snapshot_response(replica: Replica, message: ApiMessage, now_ms: int) -> bool:
    """Take in a piece of a snapshot; False when there should be a pause before the next request."""
    assert isinstance(message, FetchSnapshotResponse)
    partition = only_partition(message.topics, "name", "index")
    if message.error_code != ErrorCode.NONE or partition is None:
        return False
    handled = observe_answer(
        replica, partition.error_code, partition.current_leader, message.node_endpoints, now_ms
    )
    if handled is not None:
        return handled
    following = replica.role
    if not isinstance(following, Following) or following.snapshot is None:
        return False
    snapshot = following.snapshot
    snapshot_id = SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
    is_next = snapshot_id == snapshot.snapshot_id and partition.position == snapshot.position
    if partition.error_code != ErrorCode.NONE or not is_next or not partition.unaligned_records:
        # It may be gone, or another one: the next fetch tells what to do.
        following.snapshot = None
        return False
    try:
        replica.log.append_snapshot_chunk(snapshot_id, snapshot.position, partition.unaligned_records)
    except KafkaError as error:
        if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
            raise
        following.snapshot = None  # there is no room; the next fetch names it again
        return False
    snapshot.position += len(partition.unaligned_records)
    if snapshot.position >= partition.size:
        following.snapshot = None
        if not _load_snapshot(replica, snapshot_id):
            return False  # damaged: the next fetch names it again
    _heard(replica, following, now_ms)
    return True


def _load_snapshot(replica: Replica, snapshot_id: SnapshotId) -> bool:
    try:
        if not replica.log.finish_snapshot(snapshot_id):
            return False
    except KafkaError as error:
        if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
            raise
        return False
    replica.history.load(replica.log)
    replica.outbox.add(SnapshotLoaded(snapshot_id))
    replica.outbox.add(HighWatermark(replica.log.high_watermark))
    return True


def handle_update_response(replica: Replica, message: ApiMessage, now_ms: int) -> bool:
    """The leader has noted what this voter is, or somebody else leads."""
    assert isinstance(message, UpdateRaftVoterResponse)
    leader = message.current_leader
    endpoints = leader_endpoints(replica, leader.leader_id, ())
    if leader.leader_id >= 0 and leader.host and not endpoints:
        endpoints = (Endpoint(replica.settings.listener_name, leader.host, leader.port),)
    handled = observe(replica, message.error_code, leader.leader_id, leader.leader_epoch, endpoints, now_ms)
    return message.error_code == ErrorCode.NONE if handled is None else handled
