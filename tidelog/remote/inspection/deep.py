"""Verification of every byte of one remote segment: batches, indexes, and the other small files.

| what | must hold |
|---|---|
| batches | checksums; offsets without a gap; epochs and largest timestamp as in the metadata |
| indexes | the checks of `tidelog.storage.segment.index_checks`, as for local segments |
| transaction index | an entry for every abort of a transaction with records here; empty if in the metadata |
| producer snapshot | its checksum; no offset after the segment |
| leader epochs | they increase, and within the segment they are those of the metadata |

Bounds: one megabyte of the log, or one batch, and the small files. I/O: blocks; reads every byte once.
Errors: RemoteStorageError if the store does not respond; a defect is a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from tidelog.protocol.batch import BatchHeader
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import Offset, ProducerId
from tidelog.protocol.transaction_marker import read_end_transaction_marker
from tidelog.remote.inspection.findings import Finding, Kind, offsets_text, segment_name
from tidelog.remote.inspection.tier_files import StreamedFile, TierFiles, log_path
from tidelog.remote.objects.layout.transform import DamagedChunk
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.ports.storage_manager import (
    IndexType,
    RemoteResourceNotFound,
    RemoteStorageError,
    RemoteStorageManager,
)
from tidelog.remote.ports.streams import ShortRead, read_all
from tidelog.storage.disk.checkpoints import decode_leader_epochs
from tidelog.storage.disk.errors import CorruptFile
from tidelog.storage.disk.log_files import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
)
from tidelog.storage.leader_epoch import EpochEntry, LeaderEpochCache
from tidelog.storage.producers.producer_snapshot import decode_snapshot
from tidelog.storage.segment.batch_scan import CheckedBatch
from tidelog.storage.segment.index_checks import check_leader_epochs
from tidelog.storage.segment.inspection import SegmentInspection
from tidelog.storage.segment.txn_index import TransactionIndex

_SMALL_FILE_BYTES_MAX: Final = 1 << 30
_INDEXES: Final = {
    IndexType.OFFSET: OFFSET_INDEX_SUFFIX,
    IndexType.TIMESTAMP: TIME_INDEX_SUFFIX,
    IndexType.TRANSACTION: TXN_INDEX_SUFFIX,
}


def is_damage(error: RemoteStorageError) -> bool:
    """Return whether the store responded with invalid data."""
    causes = (DecodeError, DamagedChunk, ShortRead)
    return isinstance(error, RemoteResourceNotFound) or isinstance(error.__cause__, causes)


def inspect_segment(
    storage: RemoteStorageManager,
    metadata: RemoteLogSegmentMetadata,
    on_bytes: Callable[[int], None] = lambda size: None,
) -> list[Finding]:
    """Return the findings of the segment; `on_bytes` is called with the size of each part of its log."""
    return _SegmentCheck(storage, metadata, on_bytes).run()


class _SegmentCheck:
    """Collects the findings of one segment; `run` reads all of its objects once."""

    def __init__(
        self,
        storage: RemoteStorageManager,
        metadata: RemoteLogSegmentMetadata,
        on_bytes: Callable[[int], None],
    ) -> None:
        self._storage = storage
        self._metadata = metadata
        self._on_bytes = on_bytes
        self._findings: list[Finding] = []

    def run(self) -> list[Finding]:
        path = log_path(self._metadata)
        small_files = dict(self._small_files())
        indexes = {
            path.replace(LOG_SUFFIX, suffix): small_files[index_type]
            for index_type, suffix in _INDEXES.items()
            if index_type in small_files
        }
        log = StreamedFile(path, self._storage, self._metadata, self._on_bytes)
        inspection = SegmentInspection(TierFiles(log, indexes), path)
        batches = _BatchChecks(self._metadata)
        try:
            for batch in inspection.batches():
                batches.check(batch)
        except RemoteStorageError as error:
            self._add_damage("log", error)
        except ValueError as error:
            self._add(Kind.WRONG_SIZE, "log", str(error))
        else:
            self._add_defects(inspection.defects)
            if all(defect.path != path for defect in inspection.defects):
                self._findings += batches.findings()
                self._check_transactions(batches, inspection, indexes)
        if IndexType.PRODUCER_SNAPSHOT in small_files:
            self._check_producers(small_files[IndexType.PRODUCER_SNAPSHOT])
        if IndexType.LEADER_EPOCH in small_files:
            self._check_epochs(small_files[IndexType.LEADER_EPOCH])
        return self._findings

    def _small_files(self) -> Iterator[tuple[IndexType, bytes]]:
        for index_type in IndexType:
            try:
                stream = self._storage.fetch_index(self._metadata, index_type)
                yield index_type, read_all(stream, _SMALL_FILE_BYTES_MAX)
            except RemoteResourceNotFound as error:
                if index_type is not IndexType.TRANSACTION:
                    self._add(_KINDS[index_type], index_type.value, str(error))
            except RemoteStorageError as error:
                self._add_damage(index_type.value, error)

    def _add_defects(self, defects: list[CorruptFile]) -> None:
        for defect in defects:
            suffix = "." + defect.path.rpartition(".")[2]
            kind = Kind.BAD_BATCH
            for index_type, index_suffix in _INDEXES.items():
                if suffix == index_suffix:
                    kind = _KINDS[index_type]
            self._add(kind, suffix.lstrip("."), defect.reason)

    def _check_transactions(
        self, batches: _BatchChecks, inspection: SegmentInspection, indexes: dict[str, bytes]
    ) -> None:
        path = inspection.index_path(TXN_INDEX_SUFFIX)
        if any(defect.path == path for defect in inspection.defects):
            return
        indexed_aborts: set[Offset] = set()
        if path in indexes:
            files = TierFiles(StreamedFile("", self._storage, self._metadata, self._on_bytes), indexes)
            index = TransactionIndex(files.open(path, create=False), self._metadata.start_offset)
            indexed_aborts = {entry.last_offset for entry in index.entries()}
        if indexed_aborts and self._metadata.is_txn_index_empty:
            detail = f"it has {len(indexed_aborts)} entries, in the metadata it is empty"
            self._add(Kind.BAD_TRANSACTION_INDEX, "txnindex", detail)
        missing = sorted(batches.aborts - indexed_aborts)
        if missing:
            detail = f"it lacks the abort at offset {missing[0]}, {len(missing)} in total"
            self._add(Kind.BAD_TRANSACTION_INDEX, "txnindex", detail)

    def _check_producers(self, data: bytes) -> None:
        try:
            entries = decode_snapshot(data, "producer snapshot")
        except CorruptFile as defect:
            self._add(Kind.BAD_PRODUCER_SNAPSHOT, "producer snapshot", defect.reason)
            return
        last = max((entry.last_offset for entry in entries), default=-1)
        if last > self._metadata.end_offset:
            detail = f"it has offset {last}, the segment ends with {self._metadata.end_offset}"
            self._add(Kind.BAD_PRODUCER_SNAPSHOT, "producer snapshot", detail)

    def _check_epochs(self, data: bytes) -> None:
        metadata = self._metadata
        try:
            entries = decode_leader_epochs(data, "leader epochs")
            check_leader_epochs("leader epochs", entries)
        except CorruptFile as defect:
            self._add(Kind.BAD_LEADER_EPOCHS, "leader epochs", defect.reason)
            return
        epochs = LeaderEpochCache.of(entries)
        stored = epochs.entries_in_range(metadata.start_offset, metadata.end_offset + 1)
        expected = LeaderEpochCache.of(metadata.segment_leader_epochs).entries
        if stored != expected:
            detail = f"{_epochs_text(stored)} in the segment, {_epochs_text(expected)} in the metadata"
            self._add(Kind.BAD_LEADER_EPOCHS, "leader epochs", detail)

    def _add_damage(self, object_name: str, error: RemoteStorageError) -> None:
        if not is_damage(error):
            raise error
        self._add(Kind.DAMAGED_OBJECT, object_name, str(error))

    def _add(self, kind: Kind, object_name: str, detail: str) -> None:
        self._findings.append(_finding(kind, self._metadata, object_name, detail))


class _BatchChecks:
    """Compares the batches of a segment with its metadata, one after the other."""

    def __init__(self, metadata: RemoteLogSegmentMetadata) -> None:
        self._metadata = metadata
        self._next_offset = metadata.start_offset
        self._details: dict[Kind, str] = {}
        """The first finding of each kind."""
        self._largest_timestamp = -1
        self._open_producers: set[ProducerId] = set()
        self.aborts: set[Offset] = set()
        """The offsets of the markers that abort transactions with records in this segment."""

    def check(self, batch: CheckedBatch) -> None:
        """Check the next batch."""
        header = batch.header
        place = f"batch {header.base_offset}-{header.last_offset} at byte {batch.position}"
        if header.base_offset != self._next_offset:
            expected = f"expected is offset {self._next_offset}"
            self._details.setdefault(Kind.WRONG_OFFSETS, f"{place}, {expected}")
        self._next_offset = header.next_offset
        if header.last_offset > self._metadata.end_offset:
            self._details.setdefault(Kind.WRONG_OFFSETS, f"{place} ends after the segment's end")
        epoch = _epoch_at(self._metadata.segment_leader_epochs, header.base_offset)
        # Offsets before its first epoch were below the log start already when it was copied.
        if epoch is not None and header.partition_leader_epoch != epoch:
            self._details.setdefault(
                Kind.WRONG_EPOCH,
                f"{place} is of epoch {header.partition_leader_epoch}, in the metadata it is {epoch}",
            )
        self._largest_timestamp = max(self._largest_timestamp, header.max_timestamp)
        if header.is_transactional:
            self._follow_transaction(batch, header)

    def findings(self) -> Iterator[Finding]:
        """Return the findings after all batches, the first of each kind."""
        metadata = self._metadata
        if self._next_offset <= metadata.end_offset:
            missing = offsets_text(self._next_offset, metadata.end_offset)
            self._details.setdefault(Kind.WRONG_OFFSETS, f"{missing} are missing at the end")
        if self._largest_timestamp > metadata.max_timestamp_ms:
            self._details[Kind.WRONG_TIMESTAMP] = (
                f"{self._largest_timestamp} ms, in the metadata it is {metadata.max_timestamp_ms}"
            )
        for kind, detail in self._details.items():
            yield _finding(kind, metadata, "log", detail)

    def _follow_transaction(self, batch: CheckedBatch, header: BatchHeader) -> None:
        if not header.is_control:
            self._open_producers.add(header.producer_id)
            return
        try:
            marker = read_end_transaction_marker(batch.data, 0, header)
        except DecodeError:
            return
        if marker is not None and marker.is_abort and header.producer_id in self._open_producers:
            self.aborts.add(header.last_offset)
        self._open_producers.discard(header.producer_id)


_KINDS: Final = {
    IndexType.OFFSET: Kind.BAD_INDEX,
    IndexType.TIMESTAMP: Kind.BAD_INDEX,
    IndexType.TRANSACTION: Kind.BAD_TRANSACTION_INDEX,
    IndexType.PRODUCER_SNAPSHOT: Kind.BAD_PRODUCER_SNAPSHOT,
    IndexType.LEADER_EPOCH: Kind.BAD_LEADER_EPOCHS,
}


def _finding(kind: Kind, metadata: RemoteLogSegmentMetadata, object_name: str, detail: str) -> Finding:
    return Finding.of_segment(kind, metadata, f"{object_name} of {segment_name(metadata)}", detail)


def _epoch_at(epochs: tuple[EpochEntry, ...], offset: Offset) -> int | None:
    return next((entry.epoch for entry in reversed(epochs) if entry.start_offset <= offset), None)


def _epochs_text(entries: Iterable[tuple[int, int]]) -> str:
    return ", ".join(f"{epoch} from {start}" for epoch, start in entries) or "none"
