"""The leader's side of replication: fetches are answered or wait, and what they say commits records.

Source: KIP-595 (Fetch), KIP-630 (snapshots), KIP-1166 (a fetch waits for the high watermark too).
"""

from __future__ import annotations

from tidelog.cluster.quorum import voter_changes
from tidelog.cluster.quorum.effects import HighWatermark
from tidelog.cluster.quorum.events import RequestReceived
from tidelog.cluster.quorum.leader_news import is_our_cluster, leader_refusal
from tidelog.cluster.quorum.leading import Leading, ParkedFetch, Position
from tidelog.cluster.quorum.log import EpochEnd, RaftLog, SnapshotId
from tidelog.cluster.quorum.replica import Replica
from tidelog.cluster.quorum.responses import fetch_response, fetch_snapshot_response, top_level_error
from tidelog.cluster.quorum.topic import only_fetched_partition, only_partition
from tidelog.cluster.quorum.voter_set import ReplicaKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import LeaderEpoch, Offset
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest
from tidelog.protocol.messages.fetch_snapshot import FetchSnapshotRequest, RequestPartitionSnapshot


def handle_fetch(replica: Replica, received: RequestReceived, now_ms: int) -> None:
    """Answer a replica that asks for what follows its log, or let it wait."""
    request = received.message
    assert isinstance(request, FetchRequest)
    if not is_our_cluster(replica, request.cluster_id):
        replica.outbox.respond(received, top_level_error(request, ErrorCode.INCONSISTENT_CLUSTER_ID))
        return
    partition: FetchPartition | None = only_fetched_partition(request.topics, "partition")
    if partition is None:
        replica.outbox.respond(received, top_level_error(request, ErrorCode.INVALID_REQUEST))
        return
    fetcher = _fetcher(request, partition)
    error = leader_refusal(replica, partition.current_leader_epoch)
    if (
        request.max_wait_ms < 0
        or partition.fetch_offset < 0
        or not 0 <= partition.last_fetched_epoch <= partition.current_leader_epoch
        or fetcher.id == replica.id
    ):
        error = ErrorCode.INVALID_REQUEST
    if error is not ErrorCode.NONE:
        _refuse(replica, received, error)
        return
    parts = where_logs_part(replica.log, partition.fetch_offset, partition.last_fetched_epoch)
    if parts is not None:
        _answer(replica, received, parts=parts)
        return
    leading = replica.role
    assert isinstance(leading, Leading)
    if fetcher.id >= 0:
        _note_fetch(replica, leading, fetcher, partition.fetch_offset, now_ms)
    if replica.role is not leading:
        _refuse(replica, received, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    elif _has_news(replica, leading, partition) or request.max_wait_ms == 0:
        _answer(replica, received)
    else:
        _park(replica, leading, received, fetcher, now_ms)


def _fetcher(request: FetchRequest, partition: FetchPartition) -> ReplicaKey:
    replica_id = request.replica_state.replica_id
    if replica_id < 0:
        replica_id = request.replica_id
    return ReplicaKey.of(replica_id, partition.replica_directory_id)


def where_logs_part(log: RaftLog, offset: Offset, epoch: LeaderEpoch) -> EpochEnd | SnapshotId | None:
    """None when a log that ends at `offset` with a record of `epoch` is a part of this one.

    Else where it parts from this one, or the snapshot to begin with because it ends before this one starts.
    """
    snapshot_id = log.latest_snapshot()
    if offset == 0 and snapshot_id is not None and snapshot_id.end_offset > 0:
        # An empty log gets on faster with the snapshot than with all that led to it.
        return snapshot_id
    if log.start_offset == offset == epoch == 0:
        return None
    if log.start_offset > 0 and (
        offset < log.start_offset
        or epoch < log.start_epoch
        or (offset == log.start_offset and epoch != log.start_epoch)
    ):
        assert snapshot_id is not None, f"the log starts at {log.start_offset} without a snapshot"
        return snapshot_id
    end = log.end_offset_for_epoch(epoch)
    if end.epoch != epoch or end.end_offset < offset:
        return end
    return None


def _note_fetch(replica: Replica, leading: Leading, fetcher: ReplicaKey, offset: Offset, now_ms: int) -> None:
    """A replica has everything below `offset`, durably, and is alive."""
    position = _position_of_voter(replica, leading, fetcher)
    is_voter = position is not None
    if position is None:
        position = leading.observers.get(fetcher)
    if position is None:
        settings = replica.settings
        position = leading.observers[fetcher] = Position(fetcher)
        position.last_fetch_ms = now_ms
        leading.expire_observers(now_ms - settings.observer_session_timeout_ms, settings.observers_max)
    position.directory_id = fetcher.directory_id
    position.fetched(offset, replica.log.end_offset, now_ms)
    note_alive(replica, leading, fetcher, now_ms)
    if is_voter:
        advance(replica, leading, now_ms)


def _position_of_voter(replica: Replica, leading: Leading, fetcher: ReplicaKey) -> Position | None:
    """Return the position of a voter, None for an observer; a voter is its id and its directory id."""
    position = leading.voters.get(fetcher.id)
    return position if position is not None and replica.is_same(position.key, fetcher) else None


def note_alive(replica: Replica, leading: Leading, fetcher: ReplicaKey, now_ms: int) -> None:
    """Check quorum: when a majority has fetched, the leader may go on for another while."""
    if _position_of_voter(replica, leading, fetcher) is None:
        return
    leading.heard.add(fetcher.id)
    if len(leading.heard) >= leading.heard_needed:
        leading.heard.clear()
        leading.check_quorum_at_ms = now_ms + replica.check_quorum_ms


def advance(replica: Replica, leading: Leading, now_ms: int) -> None:
    """Commit what a majority of the voters has, when that includes a record of this epoch."""
    own = leading.voters.get(replica.id)
    if own is not None:
        own.end_offset = replica.rules.acknowledged_end(leading, replica.log.end_offset)
    offset = leading.replicated_offset()
    if offset is None or offset <= (leading.high_watermark or replica.log.high_watermark):
        return
    if not replica.rules.may_commit(leading, offset):
        return
    leading.high_watermark = offset
    replica.log.advance_high_watermark(offset)
    replica.outbox.add(HighWatermark(offset))
    replica.history.trim(replica.log.start_offset)
    answer_parked(replica, now_ms)
    voter_changes.committed(replica, leading, offset, now_ms)


def _has_news(replica: Replica, leading: Leading, partition: FetchPartition) -> bool:
    """Records that the replica lacks, or a high watermark that it does not know."""
    if partition.fetch_offset < replica.log.end_offset:
        return True
    return leading.high_watermark is not None and partition.high_watermark < leading.high_watermark


def _park(
    replica: Replica, leading: Leading, received: RequestReceived, fetcher: ReplicaKey, now_ms: int
) -> None:
    """Let the fetch wait. A replica has one that waits, an earlier one has lost its connection."""
    request = received.message
    assert isinstance(request, FetchRequest)
    for parked in leading.parked:
        if parked.replica == fetcher and fetcher.id >= 0:
            leading.parked.remove(parked)
            _answer(replica, parked.request)
            break
    if len(leading.parked) >= replica.settings.parked_fetches_max:
        _answer(replica, received)
        return
    deadline_ms = now_ms + min(request.max_wait_ms, replica.settings.max_wait_ms)
    leading.parked.append(ParkedFetch(received, fetcher, request.topics[0].partitions[0], deadline_ms))


def answer_parked(replica: Replica, now_ms: int) -> int | None:
    """Answer the fetches that wait no longer; when the next one's time is over."""
    leading = replica.role
    if not isinstance(leading, Leading) or not leading.parked:
        return None
    still_parked = []
    for parked in leading.parked:
        if parked.deadline_ms <= now_ms or _has_news(replica, leading, parked.partition):
            _answer(replica, parked.request)
        else:
            still_parked.append(parked)
    leading.parked = still_parked
    return min((parked.deadline_ms for parked in still_parked), default=None)


def _answer(
    replica: Replica, received: RequestReceived, *, parts: EpochEnd | SnapshotId | None = None
) -> None:
    """What follows the fetch offset, nothing if nothing does, or where the logs part."""
    request = received.message
    leading = replica.role
    assert isinstance(request, FetchRequest) and isinstance(leading, Leading)
    records: bytes | memoryview = b""
    if parts is None:
        partition = request.topics[0].partitions[0]
        max_bytes = min(max(request.max_bytes, 1), replica.settings.fetch_max_bytes)
        records = replica.log.read(partition.fetch_offset, max_bytes)
    response = fetch_response(
        replica.leadership(),
        replica.leader_endpoint(received),
        high_watermark=leading.high_watermark,
        log_start_offset=replica.log.start_offset,
        records=records,
        diverging=parts if isinstance(parts, EpochEnd) else None,
        snapshot_id=parts if isinstance(parts, SnapshotId) else None,
    )
    replica.outbox.respond(received, response)


def _refuse(replica: Replica, received: RequestReceived, error: ErrorCode) -> None:
    endpoint = replica.leader_endpoint(received)
    replica.outbox.respond(received, fetch_response(replica.leadership(), endpoint, error=error))


def handle_fetch_snapshot(replica: Replica, received: RequestReceived, now_ms: int) -> None:
    """Answer with a piece of a snapshot."""
    request = received.message
    assert isinstance(request, FetchSnapshotRequest)
    if not is_our_cluster(replica, request.cluster_id):
        replica.outbox.respond(received, top_level_error(request, ErrorCode.INCONSISTENT_CLUSTER_ID))
        return
    partition: RequestPartitionSnapshot | None = only_partition(request.topics, "name", "partition")
    if partition is None:
        replica.outbox.respond(received, top_level_error(request, ErrorCode.INVALID_REQUEST))
        return
    snapshot_id = SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
    error = leader_refusal(replica, partition.current_leader_epoch)
    read = None
    if error is ErrorCode.NONE:
        max_bytes = min(max(request.max_bytes, 1), replica.settings.snapshot_chunk_max_bytes)
        # What an operator wrote when formatting is not for others: the first leader writes it to the log.
        if snapshot_id.end_offset > 0:
            read = replica.log.read_snapshot(snapshot_id, max(partition.position, 0), max_bytes)
        if read is None:
            error = ErrorCode.SNAPSHOT_NOT_FOUND
        elif not 0 <= partition.position < read[1]:
            error = ErrorCode.POSITION_OUT_OF_RANGE
    endpoint = replica.leader_endpoint(received)
    if error is not ErrorCode.NONE or read is None:
        response = fetch_snapshot_response(replica.leadership(), endpoint, error=error)
        replica.outbox.respond(received, response)
        return
    leading = replica.role
    assert isinstance(leading, Leading)
    fetcher = ReplicaKey.of(request.replica_id, partition.replica_directory_id)
    if fetcher.id != replica.id:
        note_alive(replica, leading, fetcher, now_ms)
    response = fetch_snapshot_response(
        replica.leadership(),
        endpoint,
        snapshot_id=snapshot_id,
        size=read[1],
        position=partition.position,
        piece=read[0],
    )
    replica.outbox.respond(received, response)
