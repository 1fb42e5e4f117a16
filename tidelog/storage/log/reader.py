"""What readers get from a log: batches by offset, and offsets by timestamp.

Errors: KafkaError OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR when the disk fails, CORRUPT_MESSAGE when what
stands in a file is no batch or index.
"""

from __future__ import annotations

from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset
from tidelog.protocol.steps import Steps
from tidelog.storage.log import lookup as log_lookup
from tidelog.storage.log import read as log_read
from tidelog.storage.log.lookup import RecordPlace
from tidelog.storage.log.read import OffsetMetadata, ReadResult
from tidelog.storage.log.state import LogState
from tidelog.storage.segment.file_slice import FileSlice
from tidelog.storage.segment.txn_index import AbortedTransaction

_UNKNOWN_PLACE = -1


class ReadableLog(LogState):
    """A log, seen by readers. Nothing here changes it."""

    def read(
        self,
        offset: Offset,
        max_bytes: int,
        *,
        upper_bound: Offset | None = None,
        at_least_one: bool = False,
        with_aborted_transactions: bool = False,
    ) -> ReadResult:
        """Whole batches from the one that holds `offset`, of one segment, below `upper_bound` (exclusive).

        `upper_bound` None is the log end. At most `max_bytes`, but with `at_least_one` the first batch
        comes whatever its size.
        Errors: KafkaError OFFSET_OUT_OF_RANGE outside of log start and log end,
        OFFSET_MOVED_TO_TIERED_STORAGE between log start and local log start.
        """
        log_end_offset = self.log_end_offset
        if not self.local_log_start_offset <= offset <= log_end_offset:
            raise self._not_here(offset)
        if upper_bound is None or upper_bound > log_end_offset:
            upper_bound = log_end_offset
        place = OffsetMetadata(offset, _UNKNOWN_PLACE, _UNKNOWN_PLACE)
        records: FileSlice | None = None
        aborted: list[AbortedTransaction] | None = [] if with_aborted_transactions else None
        if offset < upper_bound:
            with self.storage_errors("read"):
                found = log_read.find_range(self.segments, offset, max_bytes, upper_bound, at_least_one)
                if found is not None:
                    place = OffsetMetadata(offset, found.segment.base_offset, found.start)
                    if found.end > found.start:
                        file = found.segment.file
                        records = FileSlice(file, found.start, found.end - found.start, file.held())
                        if with_aborted_transactions:
                            aborted = log_read.aborted_transactions(self.segments, offset, found.end_offset)
        return ReadResult(
            place,
            self.high_watermark,
            self.log_start_offset,
            self.last_stable_offset,
            records,
            aborted,
        )

    def _not_here(self, offset: Offset) -> KafkaError:
        if self.log_start_offset <= offset < self.local_log_start_offset:
            return KafkaError(
                ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE,
                f"{self.topic_partition}: offset {offset} is below the local log start offset "
                f"{self.local_log_start_offset}",
            )
        return KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{self.topic_partition}: offset {offset} is not within {self.log_start_offset} and "
            f"{self.log_end_offset}",
        )

    def readable_bytes(self, offset: Offset, upper_bound: Offset) -> int:
        """Bytes of the batches from `offset` up to `upper_bound` (exclusive), over all segments."""
        if offset >= upper_bound:
            return 0
        with self.storage_errors("read"):
            return log_read.readable_bytes(self.segments, offset, upper_bound)

    def aborted_transactions(self, start: Offset, upper_bound: Offset) -> list[AbortedTransaction]:
        """The aborted transactions that overlap [`start`, `upper_bound`)."""
        with self.storage_errors("read"):
            return log_read.aborted_transactions(self.segments, start, upper_bound)

    def offset_for_timestamp(
        self, timestamp: int, upper_bound: Offset | None = None
    ) -> Steps[RecordPlace | None]:
        """Return the first local record at or after `timestamp`; None when none is below `upper_bound`.

        Meanwhile the log may be appended to and cut: what is returned was there when its batch was found.
        """
        offset = self.local_log_start_offset
        while True:
            with self.storage_errors("look-up by timestamp"):
                batch = log_lookup.batch_at_or_after(self.segments, timestamp, offset)
            if batch is None or (upper_bound is not None and batch.header.base_offset >= upper_bound):
                return None
            place = yield from log_lookup.first_place(batch, timestamp, offset)
            if place is not None:
                return None if upper_bound is not None and place.offset >= upper_bound else place
            offset = max(batch.header.next_offset, self.local_log_start_offset)
            yield None

    def max_timestamp_offset(self) -> Steps[RecordPlace | None]:
        """Return the first record with the largest timestamp (KIP-734); None in a log without timestamps."""
        with self.storage_errors("look-up by timestamp"):
            batch = log_lookup.newest_batch(self.segments)
        if batch is None:
            return None
        header = batch.header
        return (yield from log_lookup.first_place(batch, header.max_timestamp, header.base_offset))
