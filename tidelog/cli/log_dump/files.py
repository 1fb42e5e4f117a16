"""Prints and verifies one file of a log directory; its name shows the format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from tidelog.cli.failures import UsageFailure
from tidelog.cli.log_dump.internal_records import Decoder
from tidelog.cli.log_dump.output import Output
from tidelog.cli.log_dump.small_files import SMALL_FILES, entries_of
from tidelog.protocol.control_batch import read_control_record
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.record import Record, read_records
from tidelog.storage.directories.partition_directory import parse_directory_name
from tidelog.storage.disk.errors import CorruptFile
from tidelog.storage.disk.log_files import (
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    base_offset_of,
    is_segment_log,
)
from tidelog.storage.disk.read_only_files import ReadOnlyFileSystem
from tidelog.storage.segment.batch_scan import CheckedBatch, CorruptLog
from tidelog.storage.segment.inspection import SegmentInspection, open_index

METADATA_SNAPSHOT_SUFFIX: Final = ".checkpoint"

_SUFFIXES: Final = (LOG_SUFFIX, *INDEX_SUFFIXES, SNAPSHOT_SUFFIX, METADATA_SNAPSHOT_SUFFIX)


def kind_of(path: Path) -> str | None:
    """Return the suffix or name that shows the format of a file, also of a deleted one; None if unknown."""
    name, suffixes = path.name, path.suffixes
    if name in SMALL_FILES:
        return name
    if base_offset_of(name) is not None and suffixes and suffixes[0] in _SUFFIXES:
        return suffixes[0]
    # A snapshot of the metadata log is named offset-epoch.checkpoint.
    return METADATA_SNAPSHOT_SUFFIX if name.endswith(METADATA_SNAPSHOT_SUFFIX) else None


def files_to_dump(path: Path) -> Iterator[Path]:
    """Yield the file itself, or the files with known formats in a partition or log directory.

    A segment comes before its indexes, because the scan of the segment also verifies them.
    """
    if not path.is_dir():
        if kind_of(path) is None:
            raise UsageFailure(f"{path}: not the name of a segment, index, snapshot or checkpoint")
        yield path
        return
    for entry in sorted(path.iterdir(), key=_dump_order):
        if entry.is_dir():
            if parse_directory_name(entry.name) is not None:
                yield from files_to_dump(entry)
        elif kind_of(entry) is not None:
            yield entry


def _dump_order(path: Path) -> tuple[str, bool, str]:
    stem, _, suffix = path.name.partition(".")
    return stem, not suffix.startswith(LOG_SUFFIX[1:]), suffix


class FileDumper:
    """Prints the contents of files and returns the defects that it finds."""

    def __init__(
        self, output: Output, *, records: bool, choose_decoder: Callable[[Path], Decoder | None], quiet: bool
    ) -> None:
        self._output = output
        self._records = records
        self._choose_decoder = choose_decoder
        self._quiet = quiet
        self._fs = ReadOnlyFileSystem()
        self._verified_indexes: dict[str, bool] = {}

    def dump(self, path: Path) -> list[CorruptFile]:
        """Print one file; return the defects of it and its indexes that were not returned before."""
        kind = kind_of(path)
        assert kind is not None, f"{path} was chosen although its format is unknown"
        self._line("dumping", {"path": str(path)})
        try:
            if kind in (LOG_SUFFIX, METADATA_SNAPSHOT_SUFFIX):
                return self._segment(path, kind)
            if kind in INDEX_SUFFIXES:
                return self._index(path, kind)
            entries = entries_of(self._fs, path, kind)
        except CorruptFile as defect:
            self._summary(path, kind, False, {})
            return [] if self._verified_indexes.get(str(path)) is False else [defect]
        for entry in entries:
            self._line("entry", entry)
        self._summary(path, kind, True, {"entries": len(entries)})
        return []

    def _line(self, kind: str, fields: dict[str, Any]) -> None:
        if not self._quiet:
            self._output.line(kind, fields)

    def _summary(self, path: Path, kind: str, is_intact: bool, fields: dict[str, Any]) -> None:
        state = "ok" if is_intact else "damaged"
        self._output.line("file", {"path": str(path), "state": state, "type": kind.lstrip("."), **fields})

    # -- segments

    def _segment(self, path: Path, kind: str) -> list[CorruptFile]:
        inspection = SegmentInspection(self._fs, str(path), end_offset=_next_base_offset(path))
        defects = inspection.defects
        decoder = self._choose_decoder(path)
        for batch in inspection.batches():
            self._batch(batch)
            if self._records or decoder is not None:
                try:
                    self._batch_records(batch, decoder)
                except DecodeError as error:
                    defects.append(CorruptLog(str(path), batch.position, str(error)))
        damaged_paths = {defect.path for defect in defects}
        for index_kind in INDEX_SUFFIXES:
            index_path = inspection.index_path(index_kind)
            self._verified_indexes[index_path] = index_path not in damaged_paths
        fields = {
            "batches": inspection.batch_count,
            "records": inspection.record_count,
            "next_offset": inspection.next_offset,
            "size_bytes": inspection.size_bytes,
        }
        self._summary(path, kind, str(path) not in damaged_paths, fields)
        return defects

    def _batch(self, batch: CheckedBatch) -> None:
        header = batch.header
        self._line(
            "batch",
            {
                "position": batch.position,
                "base_offset": header.base_offset,
                "last_offset": header.last_offset,
                "records": header.record_count,
                "size_bytes": header.size_bytes,
                "leader_epoch": header.partition_leader_epoch,
                "timestamp_type": "log_append_time" if header.is_log_append_time else "create_time",
                "base_timestamp": header.base_timestamp,
                "max_timestamp": header.max_timestamp,
                "compression": header.compression.name.lower(),
                "transactional": header.is_transactional,
                "control": header.is_control,
                "producer_id": header.producer_id,
                "producer_epoch": header.producer_epoch,
                "base_sequence": header.base_sequence,
                "crc": f"{header.crc:#010x}",
            },
        )

    def _batch_records(self, batch: CheckedBatch, decoder: Decoder | None) -> None:
        for record in read_records(batch.data, 0, batch.header):
            position = {"offset": record.offset, "timestamp": record.timestamp}
            if batch.header.is_control:
                self._line("record", {**position, **_control(record)})
            elif decoder is not None:
                self._line("record", {**position, **decoder(record)})
            else:
                headers = [{"key": key, "value": value} for key, value in record.headers]
                self._line(
                    "record",
                    {**position, "key": record.key, "value": record.value, "headers": headers or None},
                )

    # -- indexes

    def _index(self, path: Path, kind: str) -> list[CorruptFile]:
        base_offset = base_offset_of(path.name)
        assert base_offset is not None, f"{path} was chosen although it is named by no offset"
        index = open_index(self._fs, str(path), kind, base_offset)
        try:
            for entry in index.entries():
                self._line("entry", entry._asdict())
            count = index.entry_count
        finally:
            index.close()
        defects = self._verify(path, kind)
        is_intact = self._verified_indexes.get(str(path), True)
        self._summary(path, kind, is_intact, {"entries": count})
        return defects

    def _verify(self, path: Path, kind: str) -> list[CorruptFile]:
        """Verify an index against its segment, if there is one and the index was not verified before."""
        log_path = path.with_name(path.name.replace(kind, LOG_SUFFIX, 1))
        if str(path) in self._verified_indexes or not log_path.exists():
            return []
        inspection = SegmentInspection(self._fs, str(log_path), index_kinds=(kind,))
        inspection.run()
        defects = [defect for defect in inspection.defects if defect.path == str(path)]
        self._verified_indexes[str(path)] = not defects
        return defects


def _control(record: Record) -> dict[str, Any]:
    control_record = read_control_record(record)
    if control_record is None:
        return {"control": "unknown"}
    kind, message = control_record
    return {"control": kind.name.lower(), "message": message}


def _next_base_offset(path: Path) -> int | None:
    """Return the base offset of the next active segment file; None for the last one and for deleted files."""
    if not is_segment_log(path.name):
        return None
    base_offset = base_offset_of(path.name)
    assert base_offset is not None
    other_offsets = [
        base_offset_of(entry.name) for entry in path.parent.iterdir() if is_segment_log(entry.name)
    ]
    return min(
        (offset for offset in other_offsets if offset is not None and offset > base_offset), default=None
    )
