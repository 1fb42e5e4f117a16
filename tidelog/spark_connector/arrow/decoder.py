"""Decodes the record batches of one partition into Arrow record batches.

Whole batches are collected until they contain about `max_rows` records or `max_bytes` bytes. Then they are
decoded together, column by column.

Bounds: at most `max_bytes` and one batch are collected, and a batch expands to at most
`max_decompressed_bytes`. An Arrow batch has at most `max_rows` rows and at most `max_bytes` of keys, values
and headers, or one row.
Errors: DecodeError, which names the partition, for a wrong checksum and for invalid content. The decoder
cannot be used after an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from tidelog.base.dataclass import dataclass
from tidelog.protocol.batch import BATCH_OVERHEAD, BatchHeader, crc_is_valid, read_header
from tidelog.protocol.compression import BytesLike, Compression
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.protocol.record import DEFAULT_MAX_DECOMPRESSED_BYTES, RECORD_BYTES_MIN, read_payload
from tidelog.protocol.record_columns.varints import PADDING
from tidelog.spark_connector.arrow.binary_columns import pieces_column
from tidelog.spark_connector.arrow.header_column import headers_column
from tidelog.spark_connector.arrow.record_fields import FieldReader, Payloads, RecordFields
from tidelog.spark_connector.arrow.schema import record_schema
from tidelog.spark_connector.arrow.visible_batches import Aborted, VisibleBatches

MAX_ROWS: Final = 65_536
MAX_BYTES: Final = 8 * 1024 * 1024
# The offsets in Arrow's binary and list columns have 32 bits.
_BYTES_LIMIT: Final = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderSettings:
    """The columns to decode, the checks, and the size limits."""

    include_headers: bool = False
    check_crcs: bool = True
    max_rows: int = MAX_ROWS
    max_bytes: int = MAX_BYTES
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES


class ArrowDecoder:
    """Decodes the records of one partition from `start_offset` to `end_offset` (exclusive).

    Pass the contents of the partition's log to `add`, in order, then call `finish`.
    """

    def __init__(
        self,
        topic_partition: TopicPartition,
        start_offset: Offset,
        end_offset: Offset,
        settings: DecoderSettings | None = None,
    ) -> None:
        self._topic_partition = topic_partition
        self._start_offset = start_offset
        self._end_offset = end_offset
        self._settings = settings or DecoderSettings()
        self._schema = record_schema(include_headers=self._settings.include_headers)
        self._headers: list[BatchHeader] = []
        self._payloads: list[BytesLike] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self.next_offset = start_offset
        """The offset after the last batch that was added: the position for the next read."""

    @property
    def is_complete(self) -> bool:
        """Whether everything below the end offset has been added."""
        return self.next_offset >= self._end_offset

    def add(self, records: BytesLike, aborted: Aborted | None = None) -> Iterator[pa.RecordBatch]:
        """Add the batches of one fetched range and yield each full Arrow batch.

        The iterator must be exhausted before the next `add`. An incomplete batch at the end is ignored,
        because brokers cut responses at their maximum size. `aborted` is as for `VisibleBatches`.
        """
        visible = VisibleBatches(aborted)
        view = memoryview(records)
        position = 0
        while len(view) - position >= BATCH_OVERHEAD and not self.is_complete:
            header = self._header(view, position)
            if position + header.size_bytes > len(view):
                return
            # Older batches can precede the requested one.
            if header.last_offset >= self.next_offset:
                self._add_batch(view, position, header, visible)
            position += header.size_bytes
            if self._is_full():
                yield from self._flush()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield the remaining Arrow batches, after the last `add`."""
        yield from self._flush()

    def _header(self, view: memoryview, position: int) -> BatchHeader:
        try:
            return read_header(view, position)
        except DecodeError as error:
            raise self._decode_error(error) from error

    def _add_batch(
        self, view: memoryview, position: int, header: BatchHeader, visible: VisibleBatches
    ) -> None:
        settings = self._settings
        if settings.check_crcs and not crc_is_valid(view, position, header):
            raise self._decode_error(f"the batch at offset {header.base_offset} has a wrong checksum")
        if self.next_offset > header.base_offset and self.next_offset != self._start_offset:
            raise self._decode_error(
                f"a batch begins at offset {header.base_offset}, below {self.next_offset}"
            )
        self.next_offset = header.next_offset
        if header.base_offset >= self._end_offset:
            return
        try:
            if visible.is_visible(view, position, header):
                payload = self._payload(view, position, header)
                self._headers.append(header)
                self._payloads.append(payload)
                self._pending_rows += header.record_count
                self._pending_bytes += len(payload)
        except DecodeError as error:
            raise self._decode_error(f"the batch at offset {header.base_offset}: {error}") from error

    def _payload(self, view: memoryview, position: int, header: BatchHeader) -> BytesLike:
        """Return the records after the header, decompressed; no copy is made if they are not compressed."""
        limit = self._settings.max_decompressed_bytes
        if header.compression is not Compression.NONE or header.size_bytes > limit:
            return read_payload(view, position, header, limit)
        payload = view[position + BATCH_OVERHEAD : position + header.size_bytes]
        if header.record_count * RECORD_BYTES_MIN > len(payload):
            raise DecodeError(f"{header.record_count} records do not fit in {len(payload)} bytes")
        return payload

    def _is_full(self) -> bool:
        return (
            self._pending_rows >= self._settings.max_rows or self._pending_bytes >= self._settings.max_bytes
        )

    def _flush(self) -> Iterator[pa.RecordBatch]:
        if not self._headers:
            return
        if self._pending_bytes >= _BYTES_LIMIT:
            raise self._decode_error(
                f"records of {self._pending_bytes} bytes in one batch are too many for Arrow"
            )
        headers, payloads = self._headers, self._payloads
        self._headers, self._payloads = [], []
        self._pending_rows = self._pending_bytes = 0
        try:
            fields = FieldReader(_join(headers, payloads)).read()
            del payloads
            first, last = np.searchsorted(fields.offsets, [self._start_offset, self._end_offset]).tolist()
            for start, end in self._slices(fields, first, last):
                yield self._record_batch(fields, start, end)
        except DecodeError as error:
            raise self._decode_error(error) from error

    def _slices(self, fields: RecordFields, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield the first and last row of each Arrow batch, within the limits but with at least one row."""
        # The bytes from the start of its key to its end are the size of a record, except for a few bytes.
        sizes = np.cumsum(fields.ends[first:last] - fields.key_starts[first:last])
        start = first
        while start < last:
            before = int(sizes[start - first - 1]) if start > first else 0
            fitting = int(np.searchsorted(sizes, before + self._settings.max_bytes, side="right")) + first
            end = min(last, start + self._settings.max_rows, max(fitting, start + 1))
            yield start, end
            start = end

    def _record_batch(self, fields: RecordFields, start: int, end: int) -> pa.RecordBatch:
        rows = end - start
        selection = slice(start, end)
        topic, partition = self._topic_partition
        columns = [
            pieces_column(fields.data, fields.key_starts[selection], fields.key_lengths[selection]),
            pieces_column(fields.data, fields.value_starts[selection], fields.value_lengths[selection]),
            pa.repeat(pa.scalar(topic, pa.string()), rows),
            pa.repeat(pa.scalar(partition, pa.int32()), rows),
            pa.array(fields.offsets[selection]),
            pa.array(fields.timestamps[selection]).view(self._schema.field("timestamp").type),
            pa.array(fields.timestamp_types[selection]),
        ]
        if self._settings.include_headers:
            columns.append(headers_column(fields, start, end))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _decode_error(self, reason: object) -> DecodeError:
        return DecodeError(f"{self._topic_partition}: {reason}")


def _join(headers: list[BatchHeader], payloads: list[BytesLike]) -> Payloads:
    """Return the payloads joined in one buffer, and the fields of the headers as columns."""
    columns = list(zip(*headers, strict=True))
    by_name = dict(zip(BatchHeader._fields, columns, strict=True))
    sizes = np.fromiter(map(len, payloads), dtype=np.int64, count=len(payloads))
    ends = np.cumsum(sizes)
    return Payloads(
        data=b"".join([*payloads, PADDING]),
        starts=ends - sizes,
        ends=ends,
        counts=np.array(by_name["record_count"], dtype=np.int64),
        base_offsets=np.array(by_name["base_offset"], dtype=np.int64),
        last_offset_deltas=np.array(by_name["last_offset_delta"], dtype=np.int64),
        base_timestamps=np.array(by_name["base_timestamp"], dtype=np.int64),
        append_timestamps=np.array(by_name["max_timestamp"], dtype=np.int64),
        is_append_time=np.array([header.is_log_append_time for header in headers], dtype=np.bool_),
    )
