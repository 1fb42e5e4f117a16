"""The effect of compaction on one batch: it is kept, loses records, is emptied, or is removed.

| batch | result |
|---|---|
| above the offsets in the offset map | is kept |
| of an aborted transaction | is removed |
| marker | is kept while records of its transaction were found; then until its delete horizon |
| data | keeps the latest record of each key; tombstones are kept until the batch's delete horizon |

A batch is emptied instead of removed if it is the last of an active producer, whose sequence must be kept, or
the last of the compacted range, so that readers reach its end. A batch keeps its offsets, epochs, producer
and codec, and its records their deltas. Only the delete horizon (KIP-534), which replaces the base timestamp,
changes the deltas of timestamps.

Source: Cleaner, MemoryRecords.filterTo of Apache Kafka 4.3; KIP-98, KIP-534.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import compress, repeat
from operator import le
from typing import Final, NamedTuple, cast

from tidelog.protocol.batch import (
    ATTRIBUTE_DELETE_HORIZON,
    BATCH_OVERHEAD,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    BatchHeader,
    empty_batch,
    read_header,
    write_header,
)
from tidelog.protocol.compression import Compression
from tidelog.protocol.compression import compress as compress_records
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import Offset, ProducerEpoch, ProducerId
from tidelog.protocol.record import DEFAULT_MAX_DECOMPRESSED_BYTES, read_payload
from tidelog.protocol.record_table import (
    RecordTable,
    join_records,
    max_timestamp_delta,
    scan_records,
    with_shifted_timestamp,
)
from tidelog.protocol.transaction_marker import read_end_transaction_marker
from tidelog.storage.compaction.cleaned_transactions import CleanedTransactions
from tidelog.storage.compaction.offset_map import OffsetMap, represented
from tidelog.storage.log.record_bounds import RECORDS_MAX
from tidelog.storage.segment.batch_scan import CheckedBatch
from tidelog.storage.segment.txn_index import AbortedTransaction

EXPANDED_BYTES_MAX: Final = DEFAULT_MAX_DECOMPRESSED_BYTES


class LastRecord(NamedTuple):
    """The last batch of an active producer: that with this offset, or with None the marker of this epoch."""

    last_offset: Offset | None
    producer_epoch: ProducerEpoch


class RetainedBatch(NamedTuple):
    """A batch that is kept, as it is to be written."""

    header: BatchHeader
    data: bytes | bytearray | memoryview


class BatchFilter:
    """Decides about the batches of one group of segments, in order.

    `end_offset` is the upper bound of the compacted range; `keep_aborted` is called with the entries of the
    new transaction index.
    Errors: those of `read_table`.
    """

    def __init__(
        self,
        offsets: OffsetMap,
        transactions: CleanedTransactions,
        last_records: Mapping[ProducerId, LastRecord],
        keep_aborted: Callable[[AbortedTransaction], None],
        *,
        end_offset: Offset,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self._latest_offset = offsets.latest_offset
        self._offset_of = offsets.offsets.get
        self._transactions = transactions
        self._last_records = last_records
        self._keep_aborted = keep_aborted
        self._end_offset = end_offset
        self._now_ms = now_ms
        self._new_horizon_ms = now_ms + delete_retention_ms

    def retained(self, batch: CheckedBatch) -> RetainedBatch | None:
        """Return the batch as it is kept; None if it is removed."""
        header = batch.header
        if header.is_control:
            return self._retained_marker(batch)
        is_aborted = header.is_transactional and self._transactions.saw_data(header)
        if is_aborted or not header.record_count:
            return self._emptied(header)
        if header.base_offset > self._latest_offset:
            return RetainedBatch(header, batch.data)
        return self._retained_data(batch)

    # -- markers

    def _retained_marker(self, batch: CheckedBatch) -> RetainedBatch | None:
        header = batch.header
        if not header.has_producer_id:
            return RetainedBatch(header, batch.data)  # not a marker of a transaction
        marker = read_end_transaction_marker(batch.data, 0, header) if header.record_count else None
        is_needless = self._transactions.saw_marker(header, marker, self._keep_aborted)
        horizon_ms = delete_horizon_ms(header)
        if not header.record_count or (is_needless and horizon_ms is not None and horizon_ms <= self._now_ms):
            return self._emptied(header)
        if not is_needless or horizon_ms is not None:
            return RetainedBatch(header, batch.data)
        payload, table = read_table(batch)
        return self._rebuilt(header, payload, table, [True] * header.record_count, self._new_horizon_ms)

    # -- data

    def _retained_data(self, batch: CheckedBatch) -> RetainedBatch | None:
        header = batch.header
        payload, table = read_table(batch)
        survives = self._survivors(header, table)
        horizon_ms = delete_horizon_ms(header)
        needs_horizon = False
        if table.tombstones:
            if horizon_ms is None:
                needs_horizon = any(survives[index] for index in table.tombstones)
            elif horizon_ms <= self._now_ms:
                for index in table.tombstones:
                    survives[index] = False
        if needs_horizon:
            return self._rebuilt(header, payload, table, survives, self._new_horizon_ms)
        if all(survives):
            return RetainedBatch(header, batch.data)
        if not any(survives):
            return self._emptied(header)
        return self._rebuilt(header, payload, table, survives, None)

    def _survivors(self, header: BatchHeader, table: RecordTable) -> list[bool]:
        """Return for each record whether it is the latest of its key; False without a key."""
        base_offset = header.base_offset
        offsets = [base_offset + delta for delta in table.offset_deltas]
        if not table.has_null_keys:
            keys = represented(cast(list[bytes], table.keys))
            return list(map(le, map(self._offset_of, keys, repeat(-1)), offsets))
        return [
            key is not None and self._offset_of(represented([key])[0], -1) <= offset
            for key, offset in zip(table.keys, offsets, strict=True)
        ]

    def _rebuilt(
        self,
        header: BatchHeader,
        payload: bytes,
        table: RecordTable,
        survives: list[bool],
        horizon_ms: int | None,
    ) -> RetainedBatch:
        """Return the batch with the records that survive; a delete horizon replaces its base timestamp."""
        spans = list(compress(zip([0, *table.ends], table.ends, strict=False), survives))
        max_timestamp = header.max_timestamp
        if not header.is_log_append_time and len(spans) < header.record_count:
            newest = max_timestamp_delta(payload, (start for start, _ in spans))
            # The base timestamp of a batch that was never read may have any value.
            max_timestamp = min(max_timestamp, max(header.base_timestamp + newest, NO_TIMESTAMP))
        if horizon_ms is None:
            records = join_records(payload, spans)
            base_timestamp, attributes = header.base_timestamp, header.attributes
        else:
            by_ms = header.base_timestamp - horizon_ms
            records = b"".join([with_shifted_timestamp(payload, start, end, by_ms) for start, end in spans])
            base_timestamp, attributes = horizon_ms, header.attributes | ATTRIBUTE_DELETE_HORIZON
        if header.compression is not Compression.NONE:
            records = compress_records(header.compression, records)
        data = bytearray(BATCH_OVERHEAD)
        data += records
        header = header._replace(
            batch_length=len(data) - LOG_OVERHEAD,
            attributes=attributes,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            record_count=len(spans),
        )
        write_header(data, 0, header)
        return RetainedBatch(header, data)

    # -- batches without records

    def _emptied(self, header: BatchHeader) -> RetainedBatch | None:
        return emptied(header) if self._is_needed_empty(header) else None

    def _is_needed_empty(self, header: BatchHeader) -> bool:
        if header.next_offset == self._end_offset:
            return True
        last = self._last_records.get(header.producer_id) if header.has_producer_id else None
        if last is None:
            return False
        if last.last_offset is not None:
            return header.last_offset == last.last_offset
        return header.is_control and header.producer_epoch == last.producer_epoch


def read_table(batch: CheckedBatch) -> tuple[bytes, RecordTable]:
    """Return the expanded records of a batch, and their positions.

    Errors: DecodeError for records that cannot be read, that expand beyond EXPANDED_BYTES_MAX, or that are
    more than RECORDS_MAX: a table takes many times their bytes.
    """
    header = batch.header
    if header.record_count > RECORDS_MAX:
        raise DecodeError(
            f"{header.record_count} records in the batch at offset {header.base_offset}, "
            f"at most {RECORDS_MAX} are compacted"
        )
    payload = read_payload(batch.data, 0, header, EXPANDED_BYTES_MAX)
    return payload, scan_records(payload, header.record_count)


def emptied(header: BatchHeader) -> RetainedBatch:
    """Return a batch without records, which keeps the offsets and the producer's state."""
    data = empty_batch(header)
    return RetainedBatch(read_header(data), data)


def delete_horizon_ms(header: BatchHeader) -> int | None:
    """Return when tombstones or the marker of the batch may be removed; None before the first compaction."""
    return header.base_timestamp if header.attributes & ATTRIBUTE_DELETE_HORIZON else None
