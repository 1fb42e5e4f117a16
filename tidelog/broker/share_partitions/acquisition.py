"""One acquisition: the records of fetched batches become acquired by a member, within the limits.

The batches are passed one after the other, until enough records are acquired. The limit of records is exact
in the mode RECORD_LIMIT. In the mode BATCH_OPTIMIZED, whole batches are acquired: the last one may exceed it.

Records that were delivered often may contain one that no member can process. They are delivered in smaller
and smaller parts, and alone at the last time, so that a bad record does not use up the deliveries of others.

Source: KIP-932, KIP-1206 (modes); SharePartition.acquire of Apache Kafka 4.3.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from tidelog.base.dataclass import dataclass
from tidelog.broker.share_partitions.acquisition_lock import AcquisitionLock
from tidelog.broker.share_partitions.in_flight import InFlightRange, InFlightRanges
from tidelog.broker.share_partitions.record_states import RecordState
from tidelog.protocol.ids import Offset


class AcquireMode(IntEnum):
    """Whether whole batches are acquired; the values are those of ShareFetch requests."""

    BATCH_OPTIMIZED = 0
    RECORD_LIMIT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryLimits:
    """The settings of the group that limit deliveries."""

    delivery_count_max: int
    """share.delivery.count.limit"""
    records_in_flight_max: int
    """share.partition.max.record.locks"""
    lock_duration_ms: int
    """share.record.lock.duration.ms"""
    can_renew: bool = True
    """share.renew.acknowledge.enable"""

    @property
    def throttled_from(self) -> int:
        """The delivery count from which records are delivered in smaller parts."""
        return max(2, -(-self.delivery_count_max // 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class AcquireRequest:
    """The member that fetches, and how many records it requests.

    In the mode BATCH_OPTIMIZED, a new range of acquired records begins with the next batch as soon as it has
    `batch_size` records.
    """

    member_id: str
    max_records: int
    batch_size: int
    mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED


class FetchedBatch(NamedTuple):
    """The offsets of a batch of the log, and whether its records were aborted."""

    first_offset: Offset
    end_offset: Offset
    is_aborted: bool = False


class AcquiredRecords(NamedTuple):
    """Acquired records with the same delivery count; `last_offset` is inclusive, as in responses."""

    first_offset: Offset
    last_offset: Offset
    delivery_count: int


class Acquisition:
    """Changes `ranges`; `lock` is that of all records that it acquires."""

    def __init__(
        self,
        ranges: InFlightRanges,
        limits: DeliveryLimits,
        request: AcquireRequest,
        lock: AcquisitionLock,
        fetch_offset: Offset,
    ) -> None:
        self._ranges = ranges
        self._limits = limits
        self._request = request
        self._lock = lock
        self._position = fetch_offset
        """The offset up to which the batches have been passed."""
        self._acquired: list[InFlightRange] = []
        self._left = request.max_records
        self._may_extend = False
        """Whether the last range consists of records that this acquisition has added."""

    def add(self, batch: FetchedBatch) -> bool:
        """Acquire records of the next batch; return whether more batches are useful."""
        ranges = self._ranges
        if self._left <= 0:
            return False
        first = max(batch.first_offset, ranges.start_offset)
        if first > self._position:
            # The log has no records up to this batch, for example because they were compacted.
            ranges.archive_available(self._position, first)
        self._position = max(self._position, batch.end_offset)
        if batch.is_aborted:
            ranges.archive_available(first, batch.end_offset)
            self._append_gap(batch.end_offset)
            return True
        for one in ranges.overlapping(first, batch.end_offset):
            if one.is_available:
                self._deliver_again(one, first, batch.end_offset)
                if self._left <= 0:
                    return False
        if batch.end_offset > ranges.end_offset:
            self._deliver_new(max(first, ranges.end_offset), batch.end_offset)
        return self._left > 0

    @property
    def acquired(self) -> list[AcquiredRecords]:
        """The acquired records so far, in the order of their offsets."""
        return [
            AcquiredRecords(one.first_offset, one.end_offset - 1, one.delivery_count)
            for one in self._acquired
        ]

    def _deliver_again(self, one: InFlightRange, first_offset: Offset, end_offset: Offset) -> None:
        """Acquire the part of an available range that the batch contains, or less."""
        limits, delivery_count = self._limits, one.delivery_count
        first, end = max(one.first_offset, first_offset), min(one.end_offset, end_offset)
        if delivery_count >= limits.delivery_count_max:
            # The limit was lowered after the last delivery.
            for part in self._ranges.divided(first, end):
                self._ranges.set_state(part, RecordState.ARCHIVED)
            return
        is_throttled = delivery_count >= limits.throttled_from
        if is_throttled:
            if self._acquired:
                self._left = 0
                return
            end = min(end, first + self._throttled_count(one))
        if self._request.mode is AcquireMode.RECORD_LIMIT:
            end = min(end, first + self._left)
        for part in self._ranges.divided(first, end):
            self._ranges.set_state(part, RecordState.ACQUIRED)
            part.delivery_count += 1
            part.member_id, part.lock = self._request.member_id, self._lock
            self._lock.hold(part.first_offset, part.end_offset)
            self._acquired.append(part)
        self._left = 0 if is_throttled else self._left - (end - first)
        self._may_extend = False

    def _throttled_count(self, one: InFlightRange) -> int:
        """Return how many records of a range that was delivered often are delivered now."""
        limits = self._limits
        if limits.delivery_count_max > 2 and one.delivery_count == limits.delivery_count_max - 1:
            return 1
        return max(1, one.batch_records >> (one.delivery_count - limits.throttled_from + 1))

    def _deliver_new(self, first_offset: Offset, end_offset: Offset) -> None:
        """Acquire records that are delivered for the first time."""
        ranges, request = self._ranges, self._request
        allowed = min(self._left, self._limits.records_in_flight_max - ranges.record_count)
        if allowed <= 0:
            self._left = 0
            return
        if request.mode is AcquireMode.RECORD_LIMIT:
            end_offset = min(end_offset, first_offset + allowed)
        self._append_gap(first_offset)
        self._lock.hold(first_offset, end_offset)
        count = end_offset - first_offset
        if self._may_extend and (
            request.mode is AcquireMode.RECORD_LIMIT
            or first_offset - self._acquired[-1].first_offset < request.batch_size
        ):
            ranges.extend_last(end_offset)
        else:
            added = InFlightRange(
                first_offset, end_offset, RecordState.ACQUIRED, 1, count, request.member_id, self._lock
            )
            ranges.append(added)
            self._acquired.append(added)
            self._may_extend = True
        self._left -= count

    def _append_gap(self, end_offset: Offset) -> None:
        """Add offsets without records up to `end_offset`, if they are new."""
        ranges = self._ranges
        first_offset = ranges.end_offset
        if end_offset <= first_offset:
            return
        if not len(ranges):
            ranges.restart_at(end_offset)
        else:
            gap = InFlightRange(first_offset, end_offset, RecordState.ARCHIVED, 0, end_offset - first_offset)
            ranges.append(gap)
        self._may_extend = False
