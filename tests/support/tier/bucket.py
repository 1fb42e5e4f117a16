"""One partition's log on disk, its sealed segments in a real bucket, and simulated broker responses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.configs import log_config
from tests.support.logs.partition_logs import append, append_marker, open_log
from tests.support.tier.remote_tier import PARTITION, segment_metadata
from tidelog.protocol.ids import Offset
from tidelog.remote.inspection.bucket import Bucket
from tidelog.remote.inspection.findings import Finding
from tidelog.remote.inspection.fsck import bucket_findings, deep_findings, metadata_findings
from tidelog.remote.inspection.history import MetadataHistory, RecordPlace
from tidelog.remote.inspection.views import PartitionOffsets, PartitionView
from tidelog.remote.metadata.record_codec import encode_event
from tidelog.remote.metadata.store import RemoteLogEvent
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from tidelog.remote.ports.storage_manager import LogSegmentData
from tidelog.storage.disk.checkpoints import encode_leader_epochs
from tidelog.storage.disk.log_files import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
)
from tidelog.storage.disk.os_files import OsFileSystem
from tidelog.storage.leader_epoch import EpochEntry
from tidelog.storage.segment.segment import LogSegment

CONFIG = log_config(remote_storage_enable=True, retention_ms=-1, index_interval_bytes=256)


class TierBucket:
    """A bucket with segments of one log; `view` is the input of `tidelog tier`, `findings` its results."""

    def __init__(self, folder: Path, values: Mapping[str, str] | None = None) -> None:
        self.root = folder / "bucket"
        self.root.mkdir()
        own = {"storage.backend.class": "filesystem", "chunk.size": "1000"}
        if "storage.backend.class" not in (values or {}):
            own["storage.root"] = str(self.root)
        self.bucket = Bucket.open({**own, **(values or {})})
        self.log = open_log(OsFileSystem(), CONFIG, directory=str(folder / "events-0"))
        self.history = MetadataHistory()
        self.segments: list[RemoteLogSegmentMetadata] = []
        self._records = 0

    def write(self, event: RemoteLogEvent) -> None:
        """Append a record to the metadata topic, encoded and decoded."""
        self.history.record(RecordPlace(3, self._records), encode_event(event))
        self._records += 1

    def fill(self, segments: int = 3, batches: int = 8, *, epoch: int = 0) -> None:
        """Append sealed segments of `batches` batches with three records each."""
        for number in range(segments):
            for each in range(batches):
                values = [f"{number} {each} {record}" * 9 for record in range(3)]
                append(self.log, *values, leader_epoch=epoch, timestamps=NOW_MS + 1000 * each)
            self.log.roll(NOW_MS)

    def fill_with_aborts(self, *, roll: bool = True) -> None:
        """Append one sealed segment in which two producers abort and one commits."""
        for producer_id, is_abort in ((7, True), (8, False), (9, True)):
            for sequence in (0, 2):
                append(
                    self.log,
                    *("tx", "tx"),
                    producer_id=producer_id,
                    producer_epoch=0,
                    base_sequence=sequence,
                    is_transactional=True,
                )
            append_marker(self.log, producer_id, is_abort=is_abort)
        if roll:
            self.log.roll(NOW_MS)

    def copy(self, from_offset: Offset | None = None) -> list[RemoteLogSegmentMetadata]:
        """Copy sealed segments that are not copied yet, or those from an offset, as a leader."""
        copied_up_to = max((segment.end_offset for segment in self.segments), default=-1)
        if from_offset is not None:
            copied_up_to = from_offset - 1
        for segment in list(self.log.segments)[:-1]:
            if segment.base_offset > copied_up_to:
                self.segments.append(self._copy(segment))
        return self.segments

    def view(self) -> PartitionView:
        """Return the partition without the local copies of remote segments."""
        remote_end = max((segment.end_offset for segment in self.segments), default=-1)
        end = self.log.log_end_offset
        offsets = PartitionOffsets(
            log_start_offset=0,
            local_log_start_offset=remote_end + 1,
            highest_offset_in_remote_storage=remote_end,
            last_stable_offset=end,
            high_watermark=end,
            log_end_offset=end,
            leader_epoch=0,
        )
        lineage = tuple(EpochEntry(*entry) for entry in self.log.leader_epochs.entries)
        return PartitionView(
            partition=PARTITION,
            offsets=offsets,
            lineage=lineage,
            history=self.history.of(PARTITION),
            config=CONFIG,
            now_ms=NOW_MS,
        )

    def findings(self, *, deep: bool = True) -> list[Finding]:
        """Return all findings of fsck."""
        view = self.view()
        findings = metadata_findings(view) + bucket_findings(self.bucket, view)
        return findings + (deep_findings(self.bucket, [view], findings) if deep else [])

    def file(self, number: int, suffix: str) -> Path:
        """Return the path of an object of the `number`th segment."""
        keys = self.bucket.keys(self.segments[number])
        return self.root / {"log": keys.log, "indexes": keys.indexes, "rsm-manifest": keys.manifest}[suffix]

    def step(self, number: int, state: RemoteLogSegmentState, timestamp_ms: int = NOW_MS) -> None:
        """Append a further record of the `number`th segment."""
        self.write(
            RemoteLogSegmentMetadataUpdate(
                self.segments[number].remote_log_segment_id, timestamp_ms, state, 1
            )
        )

    def _copy(self, segment: LogSegment) -> RemoteLogSegmentMetadata:
        segment.complete_indexes()
        for index in (segment.offset_index, segment.time_index):
            index.write()
        metadata = segment_metadata(self.log, segment)
        self.write(metadata)
        custom = self.bucket.storage.copy_log_segment_data(
            metadata, self._files(segment, metadata.end_offset)
        )
        finished = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        self.write(
            RemoteLogSegmentMetadataUpdate(metadata.remote_log_segment_id, NOW_MS, finished, 1, custom)
        )
        return replace(metadata, state=finished, custom_metadata=custom)

    def _files(self, segment: LogSegment, end_offset: Offset) -> LogSegmentData:
        def path(suffix: str) -> str:
            return f"{self.log.directory}/{file_name(segment.base_offset, suffix)}"

        epochs = self.log.leader_epochs.entries_in_range(-1, end_offset + 1)
        return LogSegmentData(
            log=path(LOG_SUFFIX),
            offset_index=path(OFFSET_INDEX_SUFFIX),
            time_index=path(TIME_INDEX_SUFFIX),
            producer_snapshot=self.log.producers.snapshots.path(end_offset + 1),
            leader_epochs=encode_leader_epochs(epochs),
            transaction_index=path(TXN_INDEX_SUFFIX) if segment.txn_index.entry_count else None,
        )
