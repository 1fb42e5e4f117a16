"""Reading the partitions of one fetch request from their logs, within its limits in bytes.

The limits as Kafka has them: at most `max_bytes` over all partitions and `partition_max_bytes`
from each, except that the first partition with data gives one batch whatever its size, so
that a reader always moves on.

Who reads what: a follower reads to the log end, at the leader only, and its fetch is recorded there; a
client reads committed records, at a follower too when it speaks of racks (version 11 on, KIP-392), where
it is told OFFSET_NOT_AVAILABLE instead of out of range for what has not arrived there yet.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from broker.partition import FetchIsolation, Partition
from broker.replica_manager import ReplicaManager
from protocol.errors import ErrorCode, KafkaError
from protocol.fetch_view import FetchPartition, FetchPartitionResult, Records
from protocol.ids import BrokerId, LeaderEpoch, Offset

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


@dataclass(slots=True)
class FetchRead:
    """The results in request order; `is_final` when waiting for more data would be wrong."""

    results: list[tuple[FetchPartition, FetchPartitionResult]]
    size_bytes: int
    is_final: bool


def read_partitions(
    replicas: ReplicaManager,
    requested: Sequence[FetchPartition],
    limits: FetchLimits,
    *,
    is_recorded: bool = True,
) -> FetchRead:
    """Read every partition; an error of one is its result and leaves the others alone.

    `is_recorded` False for a follower's fetch that was recorded when it came, before it waited.
    """
    results: list[tuple[FetchPartition, FetchPartitionResult]] = []
    size_bytes = 0
    is_final = False
    for asked in requested:
        try:
            result = _read_one(replicas, asked, limits, size_bytes, is_recorded)
        except KafkaError as error:
            result = FetchPartitionResult(error_code=error.code)
        except Exception:
            # Else a follower could copy none of its partitions because of this one.
            logger.exception(
                "fetch of partition %d of %s failed", asked.partition, asked.topic or asked.topic_id
            )
            result = FetchPartitionResult(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        size_bytes += result.records_length
        is_final = (
            is_final
            or bool(result.error_code)
            or result.diverging_epoch is not None
            or result.preferred_read_replica >= 0
        )
        results.append((asked, result))
    return FetchRead(results, size_bytes, is_final)


def readable_partition(replicas: ReplicaManager, asked: FetchPartition, limits: FetchLimits) -> Partition:
    """The partition, when this reader may read it from us; KafkaError otherwise."""
    partition = replicas.find(asked.topic, asked.topic_id, asked.partition)
    if limits.replica_id >= 0:
        partition.check_follower(limits.replica_id, asked.current_leader_epoch)
    elif limits.leader_only:
        partition.led(asked.current_leader_epoch)
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
            result = _offsets_of(partition)
            result.preferred_read_replica = preferred
            return result
    diverging = partition.diverging_epoch(asked.last_fetched_epoch, asked.fetch_offset)
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


def _offsets_of(partition: Partition) -> FetchPartitionResult:
    log = partition.log
    return FetchPartitionResult(0, log.high_watermark, log.last_stable_offset, log.log_start_offset)


def _diverging(partition: Partition, diverging: tuple[LeaderEpoch, Offset]) -> FetchPartitionResult:
    result = _offsets_of(partition)
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
    diverging = partition.diverging_epoch(asked.last_fetched_epoch, offset)
    if diverging is not None:
        return _diverging(partition, diverging)
    records: Records | None = None
    if offset != partition.log.log_end_offset:
        max_bytes = max(0, min(asked.partition_max_bytes, limits.max_bytes - taken_bytes))
        records = partition.log.read(offset, max_bytes, at_least_one=taken_bytes == 0).records
    if is_recorded:
        partition.record_follower_fetch(broker, offset, asked.log_start_offset, limits.replica_epoch)
    # The fetch itself may have committed records: the follower hears of it at once.
    result = _offsets_of(partition)
    if records is not None and (limits.is_throttled is None or not limits.is_throttled(partition, broker)):
        result.records = records
    return result
