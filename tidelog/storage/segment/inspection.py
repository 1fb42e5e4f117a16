"""The inspection of one segment: every batch is read and verified, its indexes are compared.

    inspection = SegmentInspection(ReadOnlyFileSystem(), "/data/tides-0/00000000000000000000.log")
    for batch in inspection.batches():
        ...
    for defect in inspection.defects:   # CorruptFile, each naming its file and the place in it
        ...

Checks of the batches: header and length, CRC-32C, offsets that rise and stay in the segment, leader
epochs that never fall. Checks of the indexes: see `tidelog.storage.segment.index_checks`.

Bounds: one chunk of the file at a time, one entry per index; at most one defect per file.
I/O: reads only. Errors: OSError; defects are collected, not raised.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from tidelog.protocol.ids import Offset
from tidelog.storage.disk.errors import CorruptFile, CorruptIndex
from tidelog.storage.disk.files import File, FileSystem, parent_directory
from tidelog.storage.disk.log_files import (
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    base_offset_of,
)
from tidelog.storage.segment.batch_scan import CheckedBatch, CorruptLog, checked_batches
from tidelog.storage.segment.index_checks import (
    IndexCheck,
    OffsetIndexCheck,
    TimeIndexCheck,
    TransactionIndexCheck,
)
from tidelog.storage.segment.offset_index import OffsetIndex
from tidelog.storage.segment.time_index import TimeIndex
from tidelog.storage.segment.txn_index import TransactionIndex

# Only appends use the bound of an index.
_UNBOUNDED: Final = 2**62

AnyIndex = OffsetIndex | TimeIndex | TransactionIndex


def open_index(fs: FileSystem, path: str, kind: str, base_offset: Offset) -> AnyIndex:
    """Open the index at `path`, whose `kind` is its suffix; the caller closes it.

    Errors: OSError; CorruptIndex when its size or its ends cannot be right.
    """
    file = fs.open(path, create=False)
    try:
        index = _index_over(file, kind, base_offset)
        index.sanity_check()
    except CorruptIndex:
        file.close()
        raise
    return index


def _index_over(file: File, kind: str, base_offset: Offset) -> AnyIndex:
    if kind == OFFSET_INDEX_SUFFIX:
        return OffsetIndex(file, base_offset, _UNBOUNDED)
    if kind == TIME_INDEX_SUFFIX:
        return TimeIndex(file, base_offset, _UNBOUNDED)
    assert kind == TXN_INDEX_SUFFIX, f"{kind} is not an index"
    return TransactionIndex(file, base_offset)


class SegmentInspection:
    """One pass over the segment at `log_path` and the existing indexes with the same name.

    `end_offset` is where the next segment starts, if there is one. `index_kinds` narrows down which
    indexes are compared. A file that is no segment by name (a snapshot of the metadata log) has no
    base offset and no indexes.
    """

    def __init__(
        self,
        fs: FileSystem,
        log_path: str,
        *,
        end_offset: Offset | None = None,
        index_kinds: Collection[str] = INDEX_SUFFIXES,
    ) -> None:
        self._fs = fs
        self.path = log_path
        name = log_path.rpartition("/")[2]
        self.base_offset = base_offset_of(name) if LOG_SUFFIX in name else None
        self.end_offset = end_offset
        self._index_kinds = index_kinds
        self.defects: list[CorruptFile] = []
        self.batch_count = 0
        self.record_count = 0
        self.size_bytes = 0
        self.next_offset: Offset = self.base_offset or 0
        self._leader_epoch = -1

    def batches(self) -> Iterator[CheckedBatch]:
        """Yield every batch up to the first defect in the segment itself; call it once."""
        file = self._fs.open(self.path, create=False)
        indexes: list[AnyIndex] = []
        try:
            checks = self._open_checks(indexes)
            yield from self._walk(file, checks)
        finally:
            file.close()
            for index in indexes:
                index.close()

    def run(self) -> None:
        """Inspect all batches, only to collect defect."""
        for _ in self.batches():
            pass

    def _walk(self, file: File, checks: list[IndexCheck]) -> Iterator[CheckedBatch]:
        try:
            for batch in checked_batches(file):
                self._require_place(file, batch)
                self._count(batch)
                for check in list(checks):
                    self._feed(checks, check, batch)
                yield batch
        except CorruptFile as defect:
            # Index entries after the defect cannot be checked.
            self.defects.append(defect)
            return
        for check in checks:
            try:
                check.at_end(file.size(), self.next_offset - 1)
            except CorruptIndex as defect:
                self.defects.append(defect)

    def _feed(self, checks: list[IndexCheck], check: IndexCheck, batch: CheckedBatch) -> None:
        try:
            check.saw(batch)
        except CorruptIndex as defect:
            self.defects.append(defect)
            checks.remove(check)

    def _require_place(self, file: File, batch: CheckedBatch) -> None:
        header = batch.header
        if header.base_offset < self.next_offset:
            raise CorruptLog(
                file.path,
                batch.position,
                f"offset {header.base_offset} where {self.next_offset} or more is expected",
            )
        if self.end_offset is not None and header.next_offset > self.end_offset:
            raise CorruptLog(
                file.path,
                batch.position,
                f"offset {header.last_offset} belongs to the next segment, from {self.end_offset}",
            )
        if header.partition_leader_epoch < self._leader_epoch:
            raise CorruptLog(
                file.path,
                batch.position,
                f"leader epoch {header.partition_leader_epoch} after {self._leader_epoch}",
            )

    def _count(self, batch: CheckedBatch) -> None:
        header = batch.header
        self.batch_count += 1
        self.record_count += header.record_count
        self.size_bytes = batch.position + header.size_bytes
        self.next_offset = header.next_offset
        self._leader_epoch = header.partition_leader_epoch

    def _open_checks(self, indexes: list[AnyIndex]) -> list[IndexCheck]:
        """Return a check for each existing index; the caller closes `indexes`."""
        checks: list[IndexCheck] = []
        if self.base_offset is None:
            return checks
        for kind in self._index_kinds:
            path = self.index_path(kind)
            if not self._fs.exists(path):
                continue
            try:
                index = open_index(self._fs, path, kind, self.base_offset)
            except CorruptIndex as defect:
                self.defects.append(defect)
                continue
            indexes.append(index)
            checks.append(_check_of(index))
        return checks

    def index_path(self, kind: str) -> str:
        """Return the path of the segment's index, with the same suffix after its name."""
        directory, name = parent_directory(self.path), self.path.rpartition("/")[2]
        return f"{directory}/{name.replace(LOG_SUFFIX, kind, 1)}"


def _check_of(index: AnyIndex) -> IndexCheck:
    match index:
        case OffsetIndex():
            return OffsetIndexCheck(index)
        case TimeIndex():
            return TimeIndexCheck(index)
        case TransactionIndex():
            return TransactionIndexCheck(index)
