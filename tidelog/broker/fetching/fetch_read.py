"""Reading the partitions of one fetch request from their logs, within its limits in bytes.

The limits as Kafka has them: at most `max_bytes` over all partitions and `partition_max_bytes`
from each, except that the first partition with data gives one batch whatever its size, so
that a reader always moves on.

Who reads what: a follower reads to the log end, at the leader only, and its fetch is recorded there; a
client reads committed records, at a follower too when it speaks of racks (version 11 on, KIP-392), where
it is told OFFSET_NOT_AVAILABLE instead of out of range for what has not arrived there yet.

What has moved to remote storage a follower is told so (OFFSET_MOVED_TO_TIERED_STORAGE), to rebuild its
log there; for a client it is set down in `FetchRead.moved` and read apart, with the bytes it may take.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tidelog.broker.fetching.read_checks import check_follower, diverging_epoch
from tidelog.broker.fetching.remote_fetch import RemoteReader
from tidelog.broker.partitions.partition import FetchIsolation, Partition
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.fetch_request_view import FetchPartition
from tidelog.protocol.fetch_response_view import FetchPartitionResult, Records
from tidelog.protocol.ids import BrokerId, LeaderEpoch, Offset

logger = logging.getLogger(__name__)

CONSUMER_REPLICA_ID = -1

PreferredReplica: TypeAlias = Callable[[Partition, Offset], BrokerId | None]
"""The replica that a reader had better ask for an offset, None for the one it asks (KIP-392)."""


@dataclass(slots=True)
class FetchLimits:
    """Who reads, how far it may see, and how much it takes."""

    replica_id: int
    isolation: FetchIsolation
    min_bytes: int
    max_bytes: int
    replica_epoch: int = -1
    """The registration of a follower's broker (KIP-903)."""
    leader_only: bool = True
    """Whether followers must refuse this reader."""
    preferred_replica: PreferredReplica | None = None
    is_throttled: Callable[[Partition, BrokerId], bool] | None = None
    """Whether a follower gets no records of a partition now: a reassignment leaves room for others."""
    remote: RemoteReader | None = None
    """Where a client's partitions are read that have moved to remote storage."""


@dataclass(frozen=True, slots=True)
class MovedPartition:
    """A partition that a client reads at an offset that only remote storage has."""

    index: int
    """Where it stands in the request."""
    asked: FetchPartition
    partition: Partition
    max_bytes: int
    at_least_one: bool
    """Whether the first batch is to come whatever its size."""


@dataclass(slots=True)
class FetchRead:
    """The results in request order; `is_final` when waiting for more data would be wrong."""

    results: list[tuple[FetchPartition, FetchPartitionResult]]
    size_bytes: int
    is_final: bool
    moved: list[MovedPartition] | None = None
    """What remote storage is to be asked for; the results of these are empty so far."""


def read_partitions(
    replicas: ReplicaManager,
    requested: Sequence[FetchPartition],
    limits: FetchLimits,
    *,
    is_recorded: bool = True,
    taken_bytes: int = 0,
) -> FetchRead:
    """Read every partition; an error of one is its result and leaves the others alone.

    `is_recorded` False for a follower's fetch that was recorded when it came, before it waited.
    `taken_bytes` of the limit went to other partitions of the request.
    """
    results: list[tuple[FetchPartition, FetchPartitionResult]] = []
    size_bytes = 0
    is_final = False
    moved: list[MovedPartition] | None = None
    for asked in requested:
        try:
            result = _read_one(replicas, asked, limits, taken_bytes, is_recorded)
        except KafkaError as error:
            result = FetchPartitionResult(error_code=error.code)
            if error.code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE:
                result, elsewhere = _moved(replicas, asked, limits, taken_bytes, len(results))
                if elsewhere is not None:
                    moved = moved or []
                    moved.append(elsewhere)
                    taken_bytes += elsewhere.max_bytes
        except Exception:
            # Else a follower could copy none of its partitions because of this one.
            logger.exception(
                "fetch of partition %d of %s failed", asked.partition, asked.topic or asked.topic_id
            )
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
        results.append((asked, result))
    return FetchRead(results, size_bytes, is_final, moved)


def readable_partition(replicas: ReplicaManager, asked: FetchPartition, limits: FetchLimits) -> Partition:
    """The partition, when this reader may read it from us; KafkaError otherwise."""
    partition = replicas.find(asked.topic, asked.topic_id, asked.partition)
    if limits.replica_id >= 0:
        check_follower(partition, limits.replica_id, asked.current_leader_epoch)
    elif limits.leader_only:
        partition.require_leader(asked.current_leader_epoch)
    else:
        partition.check_leader_epoch(asked.current_leader_epoch)
    return partition


def _read_one(
    replicas: ReplicaManager,
    asked: FetchPartition,
    limits: FetchLimits,
    taken_bytes: int,
    is_recorded: bool,
) -> FetchPartitionResult:
    if limits.replica_id >= 0:
        return _read_by_follower(replicas, asked, limits, taken_bytes, is_recorded)
    partition = readable_partition(replicas, asked, limits)
    log = partition.log
    if limits.preferred_replica is not None and partition.leader is not None:
        preferred = limits.preferred_replica(partition, asked.fetch_offset)
        if preferred is not None:
            result = offsets_of(partition)
            result.preferred_read_replica = preferred
            return result
    diverging = diverging_epoch(partition, asked.last_fetched_epoch, asked.fetch_offset)
    if diverging is not None:
        return _diverging(partition, diverging)
    if partition.leader is None and asked.fetch_offset > log.log_end_offset:
        raise KafkaError(
            ErrorCode.OFFSET_NOT_AVAILABLE,
            f"{partition.topic_partition}: offset {asked.fetch_offset} has not reached this follower",
        )
    read = log.read(
        asked.fetch_offset,
        max(0, min(asked.partition_max_bytes, limits.max_bytes - taken_bytes)),
        upper_bound=partition.upper_bound(limits.isolation),
        at_least_one=taken_bytes == 0,
        with_aborted_transactions=limits.isolation is FetchIsolation.READ_COMMITTED,
    )
    result = FetchPartitionResult(
        0, read.high_watermark, read.last_stable_offset, read.log_start_offset, read.records
    )
    # Only what overlaps the batches that were read: one far behind need not take in every abort since.
    result.aborted_transactions = read.aborted_transactions
    return result


def _moved(
    replicas: ReplicaManager, asked: FetchPartition, limits: FetchLimits, taken_bytes: int, index: int
) -> tuple[FetchPartitionResult, MovedPartition | None]:
    """What a reader gets now of a partition at an offset that has moved, and what is to be read for it.

    As nobody knows yet how much that will be, all that it may take is set aside (KAFKA-14915). Nothing
    while the quota for remote reads is used up (KIP-956), nor when the request's limit is.
    """
    try:
        partition = readable_partition(replicas, asked, limits)
    except KafkaError as error:
        return FetchPartitionResult(error_code=error.code), None
    result = offsets_of(partition)
    if limits.replica_id >= 0:
        result.error_code = ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
        result.last_stable_offset = -1
        return result, None
    if limits.remote is None:
        return FetchPartitionResult(error_code=ErrorCode.OFFSET_OUT_OF_RANGE), None
    max_bytes = max(0, min(asked.partition_max_bytes, limits.max_bytes - taken_bytes))
    at_least_one = taken_bytes == 0
    if (max_bytes == 0 and not at_least_one) or limits.remote.fetch_throttle_time_ms() > 0:
        return result, None
    return result, MovedPartition(index, asked, partition, max_bytes, at_least_one)


def offsets_of(partition: Partition) -> FetchPartitionResult:
    """An empty result with the partition's offsets."""
    log = partition.log
    return FetchPartitionResult(0, log.high_watermark, log.last_stable_offset, log.log_start_offset)


def _diverging(partition: Partition, diverging: tuple[LeaderEpoch, Offset]) -> FetchPartitionResult:
    result = offsets_of(partition)
    result.diverging_epoch = diverging
    return result


def _read_by_follower(
    replicas: ReplicaManager,
    asked: FetchPartition,
    limits: FetchLimits,
    taken_bytes: int,
    is_recorded: bool,
) -> FetchPartitionResult:
    """Only a read that succeeded says that the follower's log agrees with ours up to its end."""
    broker, offset = limits.replica_id, asked.fetch_offset
    partition = readable_partition(replicas, asked, limits)
    diverging = diverging_epoch(partition, asked.last_fetched_epoch, offset)
    if diverging is not None:
        return _diverging(partition, diverging)
    records: Records | None = None
    if offset != partition.log.log_end_offset:
        max_bytes = max(0, min(asked.partition_max_bytes, limits.max_bytes - taken_bytes))
        records = partition.log.read(offset, max_bytes, at_least_one=taken_bytes == 0).records
    if is_recorded:
        partition.record_follower_fetch(broker, offset, asked.log_start_offset, limits.replica_epoch)
    # The fetch itself may have committed records: the follower hears of it at once.
    result = offsets_of(partition)
    if records is not None and (limits.is_throttled is None or not limits.is_throttled(partition, broker)):
        result.records = records
    return result
