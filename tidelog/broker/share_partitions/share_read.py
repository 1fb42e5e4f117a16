"""Reads and acquires the records of share partitions for one fetch, within its limits.

The limit in bytes is shared equally by the partitions that have records, as in Kafka: a member should get
records of all of them. Records that are in remote storage only are read separately.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import cast

from tidelog.base.dataclass import dataclass
from tidelog.broker.fetching.remote_fetch import RemoteReader
from tidelog.broker.partitions.partition import FetchIsolation
from tidelog.broker.share_partitions.acquisition import AcquireMode, AcquireRequest
from tidelog.broker.share_partitions.fetched_batches import FetchedBatches, Records
from tidelog.broker.share_partitions.registry import HostedSharePartition
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset
from tidelog.protocol.share_groups.fetch_response_view import ShareFetchResult
from tidelog.storage.segment.txn_index import AbortedTransaction

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class ShareFetchLimits:
    """The member that fetches, what it may read, and how much it requests."""

    member_id: str
    isolation: FetchIsolation
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    mode: AcquireMode
    remote: RemoteReader | None
    """Reads remote storage; None on a node without it."""

    def bytes_of_each(self, partition_count: int) -> int:
        """Return the part of `max_bytes` for each of so many partitions, at least one byte."""
        return max(1, self.max_bytes // max(1, partition_count))


def fetch_offset_of(hosted: HostedSharePartition) -> Offset:
    """Return the offset to read from, after the share partition has followed changes of the log.

    Records below the log start offset were deleted.
    """
    delivery, log = hosted.delivery, hosted.partition.log
    delivery.move_start(log.log_start_offset)
    return delivery.next_fetch_offset()


def readable_bytes(hosted: HostedSharePartition, limits: ShareFetchLimits) -> int | None:
    """Return how many bytes can be read for acquisition; None if no record can be acquired now.

    Errors: KafkaError if the share partition cannot be used, or if its log cannot be read.
    """
    hosted.require_usable()
    if not hosted.delivery.can_acquire or hosted.remote_reader is not None:
        return None
    offset, partition = fetch_offset_of(hosted), hosted.partition
    if offset < partition.log.local_log_start_offset:
        if limits.remote is not None and limits.remote.fetch_throttle_time_ms():
            return None
        return limits.max_bytes
    return partition.log.readable_bytes(offset, partition.upper_bound(limits.isolation))


class ShareRead:
    """The results of one fetch; each partition is read once."""

    def __init__(self, limits: ShareFetchLimits, partition_count: int) -> None:
        self.limits = limits
        self.size_bytes = 0
        self._records_left = limits.max_records
        self._bytes_of_each = limits.bytes_of_each(partition_count)

    def read(self, hosted: HostedSharePartition) -> ShareFetchResult | RemotePart:
        """Read and acquire records of a partition, or return what must be read from remote storage."""
        try:
            return self._read(hosted)
        except KafkaError as error:
            return error_result(error)
        except Exception:
            logger.exception("Cannot read records for share partition %s", hosted.key)
            return ShareFetchResult(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)

    def _read(self, hosted: HostedSharePartition) -> ShareFetchResult | RemotePart:
        hosted.require_usable()
        if not hosted.delivery.can_acquire or hosted.remote_reader is not None or self._records_left <= 0:
            return ShareFetchResult()
        offset, partition = fetch_offset_of(hosted), hosted.partition
        if offset < partition.log.local_log_start_offset:
            if self.limits.remote is None:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{hosted.key}: offset {offset} is not local")
            if self.limits.remote.fetch_throttle_time_ms():
                return ShareFetchResult()
            return RemotePart(hosted, offset, self._bytes_of_each)
        read = partition.log.read(
            offset,
            self._bytes_of_each,
            upper_bound=partition.upper_bound(self.limits.isolation),
            at_least_one=not self.size_bytes,
            with_aborted_transactions=self.limits.isolation is FetchIsolation.READ_COMMITTED,
        )
        return self.acquire(hosted, offset, read.records, read.aborted_transactions)

    def acquire(
        self,
        hosted: HostedSharePartition,
        fetch_offset: Offset,
        records: Records | None,
        aborted: Sequence[AbortedTransaction] | None,
    ) -> ShareFetchResult:
        """Acquire records that were read from `fetch_offset` on; return the batches that contain them."""
        if records is None or not (records.length if not isinstance(records, _IN_MEMORY) else len(records)):
            return ShareFetchResult()
        limits = self.limits
        request = AcquireRequest(
            member_id=limits.member_id,
            max_records=self._records_left,
            batch_size=limits.batch_size,
            mode=limits.mode,
        )
        batches = FetchedBatches(records, aborted)
        acquired = hosted.delivery.acquire(request, fetch_offset, batches)
        if not acquired:
            return ShareFetchResult()
        self._records_left -= sum(last - first + 1 for first, last, _ in acquired)
        result = ShareFetchResult(records=batches.part_with(acquired), acquired=acquired)
        self.size_bytes += result.records_length
        return result


_IN_MEMORY = (bytes, bytearray, memoryview)


@dataclass(frozen=True, slots=True)
class RemotePart:
    """Records of a share partition that are in remote storage only."""

    hosted: HostedSharePartition
    offset: Offset
    max_bytes: int


def error_result(error: KafkaError) -> ShareFetchResult:
    """Return the result of a partition that cannot be read."""
    return ShareFetchResult(error_code=cast(int, error.code), error_message=str(error))
