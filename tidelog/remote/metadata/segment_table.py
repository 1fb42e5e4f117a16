"""The segments of one partition in packed rows, found by id: about 70 bytes per segment.

    row   id:16 start_offset:8 end_offset:8 max_timestamp_ms:8 event_timestamp_ms:8
          segment_size_bytes:4 broker_id:4 leader_epoch:4 finish_order:4 serial:4 state:1 flags:1

Rare data is stored outside the rows: custom metadata, and the leader epochs of a segment with more than one.
A free row is used again; its serial identifies the segment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.protocol.ids import BrokerId, LeaderEpoch, Offset
from tidelog.remote.metadata.id_index import IdIndex
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from tidelog.storage.leader_epoch import EpochEntry

_ROW: Final = Struct("<16sqqqqiiiIIBB")
_ID_BYTES: Final = 16
_START, _START_AT = Struct("<q"), 16
_SPAN = Struct("<qq")
_EVENT_TIMESTAMP, _EVENT_TIMESTAMP_AT = Struct("<q"), 40
_SIZE, _SIZE_AT = Struct("<i"), 48
_BROKER, _BROKER_AT = Struct("<i"), 52
_EPOCH, _EPOCH_AT = Struct("<i"), 56
_ORDER, _ORDER_AT = Struct("<I"), 60
_SERIAL, _SERIAL_AT = Struct("<I"), 64
_STATE_AT: Final = 68
_FLAGS_AT: Final = 69
_FREE: Final = 0xFF
_TXN_INDEX_EMPTY: Final = 1
_MANY_EPOCHS: Final = 2
_CUSTOM_METADATA: Final = 4
_SERIALS: Final = 1 << 32
_FINISHED: Final = RemoteLogSegmentState.COPY_SEGMENT_FINISHED


class PlainSegment(NamedTuple):
    """A segment with one leader epoch, which starts with it, and without custom metadata: nearly all are so.

    Its id is in bytes, and its state is the number of a RemoteLogSegmentState.
    """

    segment_id: bytes
    start_offset: Offset
    end_offset: Offset
    max_timestamp_ms: int
    broker_id: BrokerId
    event_timestamp_ms: int
    segment_size_bytes: int
    leader_epoch: LeaderEpoch
    state: int
    is_txn_index_empty: bool


class SegmentTable:
    """Rows by number; a segment keeps its row until `remove`."""

    __slots__ = (
        "_custom",
        "_epochs",
        "_free",
        "_ids",
        "_next_order",
        "_next_serial",
        "_rows",
        "finished_bytes",
        "partition",
        "size_bytes",
    )

    def __init__(self, partition: TopicIdPartition) -> None:
        self.partition = partition
        self._rows = bytearray()
        self._ids = IdIndex()
        self._free: list[int] = []
        self._custom: dict[int, bytes] = {}
        self._epochs: dict[int, tuple[EpochEntry, ...]] = {}
        self._next_serial = 0
        self._next_order = 1
        self.size_bytes = 0
        """The size of all segments."""
        self.finished_bytes = 0
        """The size of the segments in COPY_SEGMENT_FINISHED."""

    def __len__(self) -> int:
        return len(self._rows) // _ROW.size - len(self._free)

    def add(self, metadata: RemoteLogSegmentMetadata) -> int:
        """Add `metadata`, whose id must be new, and return its row."""
        row = self._free.pop() if self._free else len(self._rows) // _ROW.size
        if row == len(self._rows) // _ROW.size:
            self._rows += bytes(_ROW.size)
        self._write(row, metadata, self._take_serial())
        self._count_bytes(metadata.segment_size_bytes, metadata.state)
        self._ids.add(metadata.remote_log_segment_id.id.bytes, row, self._id_of)
        return row

    def reserve(self, count: int) -> None:
        """Prepare an empty table for `count` segments."""
        self._ids.reserve(count)

    def append_plain(self, segment: PlainSegment) -> int:
        """Add `segment`, whose id must be new, in a new row, and return the row.

        If it is finished, it was finished after all others.
        """
        row = len(self._rows) // _ROW.size
        segment_id, start, end, newest, broker, event, size, epoch, state, is_txn_index_empty = segment
        flags, order = _TXN_INDEX_EMPTY if is_txn_index_empty else 0, 0
        if state == _FINISHED:
            order = self._next_order
            self._next_order += 1
        serial = self._take_serial()
        self._rows += _ROW.pack(
            segment_id, start, end, newest, event, size, broker, epoch, order, serial, state, flags
        )
        self._count_bytes(size, state)
        self._ids.add(segment_id, row, self._id_of)
        return row

    def _count_bytes(self, size_bytes: int, state: int) -> None:
        self.size_bytes += size_bytes
        if state == _FINISHED:
            self.finished_bytes += size_bytes

    def _take_serial(self) -> int:
        serial = self._next_serial
        self._next_serial = (serial + 1) % _SERIALS
        return serial

    def update(self, row: int, update: RemoteLogSegmentMetadataUpdate) -> None:
        """Apply `update` to the segment in `row`; its custom metadata changes only if the update has some."""
        position = row * _ROW.size
        was_finished = self._rows[position + _STATE_AT] == _FINISHED
        self.finished_bytes += self._size_bytes(row) * ((update.state == _FINISHED) - was_finished)
        _EVENT_TIMESTAMP.pack_into(self._rows, position + _EVENT_TIMESTAMP_AT, update.event_timestamp_ms)
        _BROKER.pack_into(self._rows, position + _BROKER_AT, update.broker_id)
        self._rows[position + _STATE_AT] = update.state
        if update.custom_metadata is not None:
            self._custom[row] = update.custom_metadata
            self._rows[position + _FLAGS_AT] |= _CUSTOM_METADATA

    def epochs(self, row: int) -> tuple[LeaderEpoch, ...]:
        """Return the leader epochs of the segment in `row`."""
        epochs = self._epochs.get(row)
        if epochs is not None:
            return tuple(entry.epoch for entry in epochs)
        return _EPOCH.unpack_from(self._rows, row * _ROW.size + _EPOCH_AT)

    def set_finish_order(self, row: int) -> None:
        """Record that the copy in `row` was finished after all other finished copies."""
        _ORDER.pack_into(self._rows, row * _ROW.size + _ORDER_AT, self._next_order)
        self._next_order += 1

    def finish_order(self, row: int) -> int:
        """Return the number that orders finished copies; 0 for an unfinished copy."""
        order: int = _ORDER.unpack_from(self._rows, row * _ROW.size + _ORDER_AT)[0]
        return order

    def frozen(self) -> FrozenSegments:
        """Return a copy of all segments for another thread."""
        copy = SegmentTable(self.partition)
        copy._rows = bytearray(self._rows)
        copy._custom = dict(self._custom)
        copy._epochs = dict(self._epochs)
        copy._free = list(self._free)
        return FrozenSegments(copy)

    def remove(self, row: int) -> None:
        """Remove the segment in `row`."""
        self._ids.remove(self._id_of(row), self._id_of)
        self.size_bytes -= self._size_bytes(row)
        self._rows[row * _ROW.size + _STATE_AT] = _FREE
        self._custom.pop(row, None)
        self._epochs.pop(row, None)
        self._free.append(row)

    def find(self, segment_id: UUID) -> int | None:
        """Return the row of the segment `segment_id`, None if it does not exist."""
        return self._ids.find(segment_id.bytes, self._id_of)

    def get(self, row: int) -> RemoteLogSegmentMetadata:
        """Return the segment in `row`."""
        (segment_id, start, end, max_timestamp, event_timestamp, size, broker, epoch, _, _, state, flags) = (
            _ROW.unpack_from(self._rows, row * _ROW.size)
        )
        assert state != _FREE, row
        return RemoteLogSegmentMetadata(
            RemoteLogSegmentId(self.partition, UUID(bytes=segment_id)),
            start,
            end,
            max_timestamp,
            broker,
            event_timestamp,
            size,
            self._epochs[row] if flags & _MANY_EPOCHS else (EpochEntry(epoch, start),),
            RemoteLogSegmentState(state),
            self._custom[row] if flags & _CUSTOM_METADATA else None,
            bool(flags & _TXN_INDEX_EMPTY),
        )

    def state(self, row: int) -> RemoteLogSegmentState:
        """Return the state of the segment in `row`."""
        return RemoteLogSegmentState(self._rows[row * _ROW.size + _STATE_AT])

    def start_offset(self, row: int) -> Offset:
        """Return the start offset of the segment in `row`."""
        start: Offset = _START.unpack_from(self._rows, row * _ROW.size + _START_AT)[0]
        return start

    def is_txn_index_empty(self, row: int) -> bool:
        """Return whether the segment in `row` certainly contains no aborted transaction."""
        return bool(self._rows[row * _ROW.size + _FLAGS_AT] & _TXN_INDEX_EMPTY)

    def epoch_span(self, row: int, epoch: LeaderEpoch) -> tuple[Offset, Offset]:
        """Return the first and the last offset (inclusive) of `epoch` in the segment.

        The segment must have that epoch.
        """
        start, end = _SPAN.unpack_from(self._rows, row * _ROW.size + _START_AT)
        epochs = self._epochs.get(row)
        if epochs is None:
            return start, end
        index = next(index for index, entry in enumerate(epochs) if entry.epoch == epoch)
        is_last = index + 1 == len(epochs)
        return epochs[index].start_offset, end if is_last else epochs[index + 1].start_offset - 1

    def rows(self) -> Iterator[int]:
        """Return the rows in use, in no particular order."""
        size = _ROW.size
        states = self._rows[_STATE_AT::size]
        return (row for row, state in enumerate(states) if state != _FREE)

    def segments(self, rows: Iterable[int]) -> Iterator[RemoteLogSegmentMetadata]:
        """Return the segments that are in `rows` now, except those that are removed meanwhile.

        Each has its state at the time when it is yielded.
        """
        return self._segments(rows, self._next_serial)

    def _segments(self, rows: Iterable[int], next_serial: int) -> Iterator[RemoteLogSegmentMetadata]:
        for row in rows:
            is_free = self._rows[row * _ROW.size + _STATE_AT] == _FREE
            age = (next_serial - 1 - self._serial(row)) % _SERIALS
            if not is_free and age < _SERIALS // 2:
                yield self.get(row)

    def _serial(self, row: int) -> int:
        serial: int = _SERIAL.unpack_from(self._rows, row * _ROW.size + _SERIAL_AT)[0]
        return serial

    def _size_bytes(self, row: int) -> int:
        size_bytes: int = _SIZE.unpack_from(self._rows, row * _ROW.size + _SIZE_AT)[0]
        return size_bytes

    def _id_of(self, row: int) -> bytes:
        position = row * _ROW.size
        return bytes(self._rows[position : position + _ID_BYTES])

    def _write(self, row: int, metadata: RemoteLogSegmentMetadata, serial: int) -> None:
        epochs = metadata.segment_leader_epochs
        first = epochs[0]
        has_many = len(epochs) > 1 or first.start_offset != metadata.start_offset
        if has_many:
            self._epochs[row] = epochs
        if metadata.custom_metadata is not None:
            self._custom[row] = metadata.custom_metadata
        flags = (
            _TXN_INDEX_EMPTY * metadata.is_txn_index_empty
            | _MANY_EPOCHS * has_many
            | _CUSTOM_METADATA * (metadata.custom_metadata is not None)
        )
        _ROW.pack_into(
            self._rows,
            row * _ROW.size,
            metadata.remote_log_segment_id.id.bytes,
            metadata.start_offset,
            metadata.end_offset,
            metadata.max_timestamp_ms,
            metadata.event_timestamp_ms,
            metadata.segment_size_bytes,
            metadata.broker_id,
            first.epoch,
            0,
            serial,
            metadata.state,
            flags,
        )


class FrozenSegments:
    """The segments of a table at one moment, in the order in which their copies were finished."""

    __slots__ = ("_table",)

    def __init__(self, table: SegmentTable) -> None:
        self._table = table

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[RemoteLogSegmentMetadata]:
        return map(self._table.get, sorted(self._table.rows(), key=self._table.finish_order))
