"""Reads the partitions of one fetch request from their logs, within its limits in bytes.

The limits are Kafka's: at most `max_bytes` over all partitions and `partition_max_bytes` from each. The first
partition with data returns one batch of any size, so that a reader always makes progress.

A follower reads up to the log end, from the leader only, which records its position. A client reads committed
records. From version 11 on (KIP-392) it may read from a follower. There it gets OFFSET_NOT_AVAILABLE instead
of OFFSET_OUT_OF_RANGE for an offset that the follower does not have yet.

An offset below the local log start is in remote storage. A follower gets OFFSET_MOVED_TO_TIERED_STORAGE and
rebuilds its log from there. For a client the read returns a `RemotePartition`, which is read separately.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from tidelog.base.dataclass import dataclass
from tidelog.broker.fetching.read_checks import check_follower, diverging_epoch
from tidelog.broker.fetching.remote_fetch import RemoteReader
from tidelog.broker.partitions.partition import FetchIsolation, Partition
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, LeaderEpoch, Offset
from tidelog.protocol.steps import Steps
from tidelog.protocol.views.fetch_request_view import FetchPartition
from tidelog.protocol.views.fetch_response_view import FetchPartitionResult, FetchResult, Records

logger = logging.getLogger(__name__)

PARTITIONS_PER_STEP: Final = 100
"""Reading this many takes about 0.5 ms. A fetch of more partitions is read in steps."""

_ERRORS_BEFORE_READING: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
"""Errors with an empty list of aborted transactions in Kafka's responses; others have null."""

PreferredReplica: TypeAlias = Callable[[Partition, Offset], BrokerId | None]
"""Returns the replica from which a client should read an offset; None for this one (KIP-392)."""


@dataclass(slots=True)
class FetchLimits:
    """The reader of a fetch, the records that it may see, and its limits in bytes."""

    replica_id: int
    isolation: FetchIsolation
    min_bytes: int
    max_bytes: int
    replica_epoch: int = -1
    """The registration epoch of a follower's broker (KIP-903)."""
    leader_only: bool = True
    """Whether this reader may not read from followers."""
    preferred_replica: PreferredReplica | None = None
    is_throttled: Callable[[Partition, BrokerId], bool] | None = None
    """Returns whether a follower gets no records of a partition now (KIP-73)."""
    remote: RemoteReader | None = None
    """Reads the remote part of partitions for clients; None on a node without remote storage."""
    check_access: Callable[[FetchPartition], None] | None = None
    """Raises KafkaError if the reader may not read a partition; None without an authorizer."""

    @property
    def is_of_follower(self) -> bool:
        """Whether the reader is a replica on another broker, and is allowed to be one."""
        return self.replica_id >= 0 and self.check_access is None


@dataclass(frozen=True, slots=True)
class RemotePartition:
    """A partition that a client reads at an offset that is in remote storage only."""

    index: int
    """Its position in the request."""
    requested: FetchPartition
    partition: Partition
    max_bytes: int
    at_least_one: bool
    """Whether the first batch is returned even if it is larger than `max_bytes`."""


@dataclass(slots=True)
class FetchRead:
    """The results of reading the partitions of a request, in their order."""

    results: list[FetchResult]
    size_bytes: int = 0
    is_final: bool = False
    """Whether the response must not wait for more data."""
    remote: list[RemotePartition] | None = None
    """Partitions to read from remote storage, if any; their results have no records yet."""
    reserved_bytes: int = 0
    """The part of the request's limit that is reserved for remote reads or for other partitions."""


def read_partitions(
    replicas: ReplicaManager,
    requested: Sequence[FetchPartition],
    limits: FetchLimits,
    *,
    records_positions: bool = True,
    read: FetchRead | None = None,
) -> FetchRead:
    """Read every partition, add the results to `read` (by default a new one), and return it.

    An error of one partition is its result and does not affect the others.
    `records_positions` is False for a follower's fetch whose position was recorded before it waited.
    """
    if read is None:
        read = FetchRead([])
    results = read.results
    is_final = read.is_final
    taken_bytes = read.size_bytes + read.reserved_bytes
    size_bytes = 0
    for each in requested:
        try:
            if limits.check_access is not None:
                limits.check_access(each)
            if limits.replica_id >= 0:
                result = _read_by_follower(replicas, each, limits, taken_bytes, records_positions)
            else:
                outcome = _read_by_client(replicas, each, limits, taken_bytes)
                if isinstance(outcome, Partition):
                    result = _reserve_remote_read(read, outcome, each, limits, taken_bytes)
                    taken_bytes = read.size_bytes + size_bytes + read.reserved_bytes
                else:
                    result = outcome
        except KafkaError as error:
            result = FetchPartitionResult(error_code=error.code)
            if error.code in _ERRORS_BEFORE_READING:
                result.aborted_transactions = ()
        except Exception:
            # One failing partition must not prevent a follower from fetching the others.
            logger.exception("Cannot read partition %d of %s", each.partition, each.topic or each.topic_id)
            result = FetchPartitionResult(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        length = result.records_length
        size_bytes += length
        taken_bytes += length
        is_final = (
            is_final
            or bool(result.error_code)
            or result.diverging_epoch is not None
            or result.preferred_read_replica >= 0
        )
        results.append((each, result))
    read.size_bytes += size_bytes
    read.is_final = is_final
    return read


def read_in_steps(
    replicas: ReplicaManager,
    requested: Sequence[FetchPartition],
    limits: FetchLimits,
    *,
    records_positions: bool = True,
) -> Steps[FetchRead]:
    """Do what `read_partitions` does, in steps, for many partitions."""
    read = FetchRead([])
    for start in range(0, len(requested), PARTITIONS_PER_STEP):
        batch = requested[start : start + PARTITIONS_PER_STEP]
        read_partitions(replicas, batch, limits, records_positions=records_positions, read=read)
        yield None
    return read


def readable_partition(replicas: ReplicaManager, requested: FetchPartition, limits: FetchLimits) -> Partition:
    """Return the partition if this reader may read it from this node; raise KafkaError otherwise."""
    partition = replicas.find(requested.topic, requested.topic_id, requested.partition)
    if limits.replica_id >= 0:
        check_follower(partition, limits.replica_id, requested.current_leader_epoch)
    elif limits.leader_only:
        partition.require_leader(requested.current_leader_epoch)
    else:
        partition.check_leader_epoch(requested.current_leader_epoch)
    return partition


def result_with_offsets(partition: Partition) -> FetchPartitionResult:
    """Return a result without records that has the partition's offsets."""
    log = partition.log
    return FetchPartitionResult(0, log.high_watermark, log.last_stable_offset, log.log_start_offset)


def _read_by_client(
    replicas: ReplicaManager, requested: FetchPartition, limits: FetchLimits, taken_bytes: int
) -> FetchPartitionResult | Partition:
    """Return the result, or the partition if the offset is in remote storage only."""
    partition = readable_partition(replicas, requested, limits)
    log = partition.log
    offset = requested.fetch_offset
    if limits.preferred_replica is not None and partition.leader is not None:
        preferred = limits.preferred_replica(partition, offset)
        if preferred is not None:
            result = result_with_offsets(partition)
            result.preferred_read_replica = preferred
            return result
    if requested.last_fetched_epoch >= 0:
        diverging = diverging_epoch(partition, requested.last_fetched_epoch, offset)
        if diverging is not None:
            return _diverging(partition, diverging)
    if offset < log.local_log_start_offset and offset >= log.log_start_offset:
        return partition
    if partition.leader is None and offset > log.log_end_offset:
        raise KafkaError(
            ErrorCode.OFFSET_NOT_AVAILABLE,
            f"{partition.topic_partition}: this follower does not have offset {offset} yet",
        )
    read = log.read(
        offset,
        max(0, min(requested.partition_max_bytes, limits.max_bytes - taken_bytes)),
        upper_bound=partition.upper_bound(limits.isolation),
        at_least_one=taken_bytes == 0,
        with_aborted_transactions=limits.isolation is FetchIsolation.READ_COMMITTED,
    )
    result = FetchPartitionResult(
        0, read.high_watermark, read.last_stable_offset, read.log_start_offset, read.records
    )
    # Only aborted transactions that overlap the returned batches: the reader needs no later ones now.
    result.aborted_transactions = read.aborted_transactions
    return result


def _reserve_remote_read(
    read: FetchRead,
    partition: Partition,
    requested: FetchPartition,
    limits: FetchLimits,
    taken_bytes: int,
) -> FetchPartitionResult:
    """Add a partition to the remote reads of `read`; return its result without records.

    The size of the remote data is not known yet. All bytes that it may take are therefore reserved
    (KAFKA-14915). Nothing is read remotely while the quota of remote reads is exceeded (KIP-956), or if the
    request's limit is used up.
    """
    if limits.remote is None:
        return FetchPartitionResult(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    max_bytes = max(0, min(requested.partition_max_bytes, limits.max_bytes - taken_bytes))
    at_least_one = taken_bytes == 0
    if (max_bytes or at_least_one) and not limits.remote.fetch_throttle_time_ms():
        read.remote = read.remote or []
        index = len(read.results)
        read.remote.append(RemotePartition(index, requested, partition, max_bytes, at_least_one))
        read.reserved_bytes += max_bytes
    return result_with_offsets(partition)


def _diverging(partition: Partition, diverging: tuple[LeaderEpoch, Offset]) -> FetchPartitionResult:
    """Return a result without records that contains the epoch and the end offset in `diverging`."""
    result = result_with_offsets(partition)
    result.diverging_epoch = diverging
    return result


def _read_by_follower(
    replicas: ReplicaManager,
    requested: FetchPartition,
    limits: FetchLimits,
    taken_bytes: int,
    records_positions: bool,
) -> FetchPartitionResult:
    """Return the result, and record the follower's position if `records_positions`.

    Only a successful read proves that the follower's log agrees with ours up to its end.
    """
    broker, offset = limits.replica_id, requested.fetch_offset
    partition = readable_partition(replicas, requested, limits)
    log = partition.log
    diverging = diverging_epoch(partition, requested.last_fetched_epoch, offset)
    if diverging is not None:
        return _diverging(partition, diverging)
    if offset < log.local_log_start_offset and offset >= log.log_start_offset:
        result = result_with_offsets(partition)
        result.error_code = ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
        result.last_stable_offset = -1
        return result
    records: Records | None = None
    if offset != log.log_end_offset:
        max_bytes = max(0, min(requested.partition_max_bytes, limits.max_bytes - taken_bytes))
        records = log.read(offset, max_bytes, at_least_one=taken_bytes == 0).records
    if records_positions:
        partition.record_follower_fetch(broker, offset, requested.log_start_offset, limits.replica_epoch)
    # Computed after the position was recorded, which may have advanced the high watermark.
    result = result_with_offsets(partition)
    if records is not None and (limits.is_throttled is None or not limits.is_throttled(partition, broker)):
        result.records = records
    return result
