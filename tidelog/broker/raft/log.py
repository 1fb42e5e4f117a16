"""The metadata log on disk for the quorum: `__cluster_metadata-0` and its snapshots.

A Kafka partition log whose batches are all verified when it is opened. It begins at offset 0 or at the end of
a snapshot; segments completely below that offset are deleted.

I/O: synchronous, into the page cache. `flush_plan` returns a plan that makes it durable, and that may run in
any thread. Errors: KafkaError KAFKA_STORAGE_ERROR; CorruptLog and CorruptFile when the log is opened.
Source: KafkaMetadataLog of Apache Kafka; KIP-595, KIP-630.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

from tidelog.base.clock import Clock
from tidelog.base.dataclass import dataclass
from tidelog.broker.raft.snapshot_expiration import SnapshotExpiration
from tidelog.broker.raft.snapshot_format import require_whole_snapshot
from tidelog.broker.raft.snapshots import SnapshotFiles
from tidelog.cluster.quorum.log import EpochEnd, SnapshotId
from tidelog.cluster.quorum.settings import MAX_BATCH_BYTES
from tidelog.cluster.quorum.topic import METADATA_PARTITION, METADATA_TOPIC_ID
from tidelog.cluster.topic_names import CLUSTER_METADATA_TOPIC
from tidelog.protocol.batch import iterate_headers, read_header
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import LeaderEpoch, Offset, TopicPartition
from tidelog.storage.config.topic_configs import DEFAULT_LOG_CONFIG
from tidelog.storage.disk.checkpoints import PartitionMetadataFile
from tidelog.storage.disk.errors import CorruptFile, InterruptedChange, StorageFailure
from tidelog.storage.disk.files import Buffer, FileSystem
from tidelog.storage.log.flush import FlushPlan
from tidelog.storage.log.opening import CheckpointedState, LogLocation, LogOptions
from tidelog.storage.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)

METADATA_TOPIC_PARTITION: Final = TopicPartition(CLUSTER_METADATA_TOPIC, METADATA_PARTITION)
# The metadata log has no producer ids, and is never tiered.
_OPTIONS: Final = LogOptions(producer_id_expiration_ms=2**31 - 1, remote_storage_system_enable=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataLogConfig:
    """Each field is the broker key of the same name with underscores for dots; -1 means no limit."""

    metadata_log_segment_bytes: int
    metadata_log_segment_ms: int
    metadata_max_retention_bytes: int
    metadata_max_retention_ms: int


def metadata_directory(directory: str) -> str:
    """Return the directory of the metadata log in a log directory."""
    return f"{directory}/{METADATA_TOPIC_PARTITION}"


class MetadataLog:
    """Implements tidelog.cluster.quorum.log.RaftLog by a partition log and snapshot files."""

    def __init__(
        self, log: PartitionLog, snapshots: SnapshotFiles, config: MetadataLogConfig, clock: Clock
    ) -> None:
        self.snapshots = snapshots
        self._expiration = SnapshotExpiration(
            snapshots,
            clock,
            retention_bytes=config.metadata_max_retention_bytes,
            retention_ms=config.metadata_max_retention_ms,
        )
        self._log = log
        self._segment_bytes_max = config.metadata_log_segment_bytes
        self._clock = clock
        self._is_full = False
        self._start = SnapshotId(log.log_start_offset, 0)
        self._initialize_start()

    @classmethod
    def open(cls, fs: FileSystem, directory: str, config: MetadataLogConfig, clock: Clock) -> MetadataLog:
        """Open the log in the log directory `directory`; create it if it does not exist."""
        path = metadata_directory(directory)
        log_config = replace(
            DEFAULT_LOG_CONFIG,
            segment_bytes=config.metadata_log_segment_bytes,
            segment_ms=config.metadata_log_segment_ms,
            max_message_bytes=MAX_BATCH_BYTES,
            retention_ms=-1,
            retention_bytes=-1,
        )
        fs.makedirs(path)
        if not PartitionMetadataFile(fs, path).exists():
            PartitionMetadataFile(fs, path).write(METADATA_TOPIC_ID)
        log = PartitionLog.open(
            LogLocation(fs, path, METADATA_TOPIC_PARTITION, METADATA_TOPIC_ID),
            log_config,
            CheckpointedState(),
            now_ms=clock.wall_ms(),
            options=_OPTIONS,
        )
        return cls(log, SnapshotFiles(fs, path), config, clock)

    def _initialize_start(self) -> None:
        """Set the start to offset 0 or the end of a snapshot; complete an interrupted reset."""
        latest = self.snapshots.latest
        if latest is not None and not self._contains(latest):
            # The last run ended after the fetch of this snapshot, but before the reset of the log.
            self._reset_to(latest)
            return
        first = self._log.log_start_offset
        if first > 0:
            start = next((each for each in self.snapshots.ids if each.end_offset >= first), None)
            if start is None:
                text = f"the log begins at offset {first}, and no snapshot contains the records before it"
                raise CorruptFile(self._log.directory, text)
            self._log.advance_high_watermark(start.end_offset)
            self._log.advance_log_start_offset(start.end_offset)
            self._start = start
        if latest is not None:
            self._log.advance_high_watermark(latest.end_offset)
        self.snapshots.remove_before(self._start.end_offset)

    def _contains(self, snapshot_id: SnapshotId) -> bool:
        """Return whether the log reaches the snapshot's end, in the same epoch if that is known."""
        end_offset, epoch = snapshot_id
        if end_offset <= self._log.log_start_offset:
            return True
        if end_offset > self._log.log_end_offset:
            return False
        return self._log.leader_epochs.epoch_for_offset(end_offset - 1) == epoch

    # ---- for the quorum

    @property
    def directory(self) -> str:
        """The directory of the log and its snapshots."""
        return self._log.directory

    @property
    def failure(self) -> StorageFailure | None:
        """The failure after which the log accepts no more writes; None if it accepts writes."""
        failure = self._log.failure
        return None if isinstance(failure, InterruptedChange) else failure

    @property
    def start_offset(self) -> Offset:
        """The log start offset."""
        return self._start.end_offset

    @property
    def start_epoch(self) -> LeaderEpoch:
        """Epoch of the record before `start_offset`; 0 at offset 0."""
        return self._start.epoch

    @property
    def end_offset(self) -> Offset:
        """The log end offset."""
        return self._log.log_end_offset

    @property
    def last_epoch(self) -> LeaderEpoch:
        """Epoch of the last record; `start_epoch` if the log is empty."""
        latest = self._log.leader_epochs.latest_epoch
        if latest is None or self.end_offset == self.start_offset:
            return self._start.epoch
        return latest

    @property
    def high_watermark(self) -> Offset:
        """The highest offset up to which this replica knows the log to be committed."""
        return self._log.high_watermark

    def append(self, batches: Buffer, epoch: LeaderEpoch) -> None:
        """Append complete batches that follow the log end. Raise KafkaError if the disk or a batch fails."""
        first = read_header(batches)
        base_offset = self.end_offset
        assert first.base_offset == base_offset, f"{first.base_offset} does not follow {base_offset}"
        try:
            self._append_all(batches)
        except KafkaError as error:
            if not self._is_full:
                logger.error("Cannot append to the metadata log: %s", error)
            self._is_full = True
            if self.failure is None and self.end_offset > base_offset:
                self._log.truncate_to(base_offset, self._clock.wall_ms())
            raise
        self._is_full = False
        assert self.last_epoch == epoch, f"the last batch is of epoch {self.last_epoch}, not {epoch}"

    def _append_all(self, batches: Buffer) -> None:
        if len(batches) <= self._segment_bytes_max:
            self._append(batches)
        else:
            for position, header in iterate_headers(batches):
                self._append(memoryview(batches)[position : position + header.size_bytes])

    def _append(self, batches: Buffer) -> None:
        info = self._log.append_as_follower(batches, self._clock.wall_ms())
        assert info is not None, "only complete batches are appended"
        assert info.size_bytes == len(batches), (
            f"{info.size_bytes} of {len(batches)} bytes are complete batches"
        )

    def truncate_to(self, offset: Offset) -> None:
        """Truncate the log to `offset`, durably; it must not be below the high watermark."""
        assert offset >= self.high_watermark, f"{offset} is below the high watermark {self.high_watermark}"
        logger.info("Truncating the metadata log from offset %d to %d", self.end_offset, offset)
        self._log.truncate_to(offset, self._clock.wall_ms())

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> EpochEnd:
        """Return the largest epoch in the log that is not above `epoch`, and its end offset."""
        if epoch < self._start.epoch:
            return EpochEnd(self._start.epoch, self.start_offset)
        largest, end_offset = self._start.epoch, self.start_offset
        if self.end_offset > self.start_offset:
            entries = self._log.leader_epochs.entries
            for index, (known, _) in enumerate(entries):
                if known <= epoch:
                    largest = known
                    end_offset = (
                        entries[index + 1].start_offset if index + 1 < len(entries) else self.end_offset
                    )
        return EpochEnd(largest, end_offset)

    def read(self, offset: Offset, max_bytes: int, upper_bound: Offset | None = None) -> bytes:
        """Return complete batches from the one that contains `offset` on: at least one, none at the end.

        No batch at or above `upper_bound` is returned; None means no bound.
        """
        read = self._log.read(offset, max_bytes, at_least_one=True, upper_bound=upper_bound)
        return b"" if read.records is None else read.records.read()

    def advance_high_watermark(self, offset: Offset) -> None:
        """Set the high watermark to `offset`."""
        assert offset <= self.end_offset, f"{offset} is above the log end {self.end_offset}"
        self._log.advance_high_watermark(offset)

    # ---- snapshots

    def latest_snapshot(self) -> SnapshotId | None:
        """Return the newest complete snapshot, None if there is none."""
        return self.snapshots.latest

    def read_snapshot(
        self, snapshot_id: SnapshotId, position: int, max_bytes: int
    ) -> tuple[bytes, int] | None:
        """Return bytes of a snapshot and its size; None if it does not exist."""
        return self.snapshots.read(snapshot_id, position, max_bytes)

    def append_snapshot_chunk(
        self, snapshot_id: SnapshotId, position: int, chunk: bytes | memoryview
    ) -> None:
        """Append a piece to a snapshot that is being fetched."""
        with self._log.failures.storage_errors("fetch of a snapshot"):
            self.snapshots.append_chunk(snapshot_id, position, chunk)

    def finish_snapshot(self, snapshot_id: SnapshotId) -> bool:
        """Make a fetched snapshot durable, and reset the log to its end.

        Return False if it is damaged; it is deleted then, and may be fetched again.
        """
        with self._log.failures.storage_errors("fetch of a snapshot", is_final=True):
            path, data = self.snapshots.read_fetched(snapshot_id)
            try:
                require_whole_snapshot(path, data)
            except CorruptFile as error:
                logger.error("Deleting the fetched snapshot, because it is damaged: %s", error)
                self.snapshots.delete_fetched(snapshot_id)
                return False
            self.snapshots.finish(snapshot_id)
        self._reset_to(snapshot_id)
        return True

    def _reset_to(self, snapshot_id: SnapshotId) -> None:
        logger.info("Resetting the metadata log to offset %d, the end of a snapshot", snapshot_id.end_offset)
        self._log.truncate_fully_and_start_at(snapshot_id.end_offset, self._clock.wall_ms())
        self._start = snapshot_id
        self.snapshots.remove_before(snapshot_id.end_offset)

    # ---- for the node

    def timestamp_before(self, offset: Offset) -> int:
        """Return the timestamp in ms of the batch that ends at `offset`; 0 if the log does not contain it."""
        if not self.start_offset < offset <= self.end_offset:
            return 0
        batch = self.read(offset - 1, 1)
        return max(0, read_header(batch).max_timestamp)

    def clean(self) -> bool:
        """Delete expired snapshots, and the log before the first one kept; return whether any was deleted.

        The newest snapshot and the log from its end are never deleted.
        """
        before = self._start
        while self._expiration.is_oldest_expired(self._log.size_bytes):
            next_snapshot = self.snapshots.ids[1]
            if next_snapshot.end_offset > self.high_watermark:
                break
            self._log.advance_log_start_offset(next_snapshot.end_offset)
            # Set first: earlier records cannot be read from now on, even if the files cannot be deleted.
            self._start = next_snapshot
            self._log.retention.apply(self._clock.wall_ms())
            self.snapshots.remove_before(next_snapshot.end_offset)
        self._log.retention.delete_expired_files(self._clock.wall_ms())
        return self._start != before

    def flush_plan(self) -> FlushPlan:
        """Return the plan that flushes all appended records, without the indexes of the active segment."""
        return self._log.durability.flush_plan(with_indexes=False)

    def on_flushed(self, plan: FlushPlan) -> None:
        """Record that `plan` has run."""
        self._log.durability.flushed(plan, self._clock.wall_ms())

    def on_sync_failed(self, error: OSError | KafkaError) -> KafkaError:
        """Record that an fsync failed, and return the error; the log accepts no more writes."""
        return self._log.failures.storage_error("flush", error, is_final=True)

    def close(self, *, clean: bool) -> None:
        """Close the files; `clean` flushes them first unless a flush has failed before."""
        self._log.close(clean=clean, now_ms=self._clock.wall_ms())
