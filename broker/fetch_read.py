"""Reading the partitions of one fetch request from their logs, within its limits in bytes.

The limits as Kafka has them: at most `max_bytes` over all partitions and `partition_max_bytes`
from each, except that the first partition with data gives one batch whatever its size, so
that a reader always moves on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from broker.partition import FetchIsolation, Partition
from broker.replica_manager import ReplicaManager
from protocol.errors import ErrorCode, KafkaError
from protocol.fetch_view import FetchPartition, FetchPartitionResult

CONSUMER_REPLICA_ID = -1


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Who reads, how far it may see, and how much it takes."""

    replica_id: int
    isolation: FetchIsolation
    min_bytes: int
    max_bytes: int


@dataclass(slots=True)
class FetchRead:
    """The results in request order; `is_final` when waiting for more data would be wrong."""

    results: list[tuple[FetchPartition, FetchPartitionResult]]
    size_bytes: int
    is_final: bool


def read_partitions(
    replicas: ReplicaManager, requested: Sequence[FetchPartition], limits: FetchLimits
) -> FetchRead:
    """Read every partition; an error of one is its result and leaves the others alone."""
    results: list[tuple[FetchPartition, FetchPartitionResult]] = []
    size_bytes = 0
    is_final = False
    for asked in requested:
        try:
            result = _read_one(replicas, asked, limits, size_bytes)
        except KafkaError as error:
            result = FetchPartitionResult(error_code=error.code)
        size_bytes += result.records_length
        is_final = is_final or bool(result.error_code) or result.diverging_epoch is not None
        results.append((asked, result))
    return FetchRead(results, size_bytes, is_final)


def led_partition(replicas: ReplicaManager, asked: FetchPartition, replica_id: int) -> Partition:
    """The partition, when this reader may read it from us; KafkaError otherwise."""
    partition = replicas.find(asked.topic, asked.topic_id, asked.partition)
    if replica_id >= 0:
        raise KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"node {replica_id} is no follower of {partition.topic_partition}",
        )
    partition.check_leader_epoch(asked.current_leader_epoch)
    return partition


def _read_one(
    replicas: ReplicaManager, asked: FetchPartition, limits: FetchLimits, taken_bytes: int
) -> FetchPartitionResult:
    partition = led_partition(replicas, asked, limits.replica_id)
    log = partition.log
    diverging = partition.diverging_epoch(asked.last_fetched_epoch, asked.fetch_offset)
    if diverging is not None:
        return FetchPartitionResult(
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            diverging_epoch=diverging,
        )
    upper_bound = partition.upper_bound(limits.isolation)
    read = log.read(
        asked.fetch_offset,
        max(0, min(asked.partition_max_bytes, limits.max_bytes - taken_bytes)),
        upper_bound=upper_bound,
        at_least_one=taken_bytes == 0,
        with_aborted_transactions=limits.isolation is FetchIsolation.READ_COMMITTED,
    )
    result = FetchPartitionResult(
        0, read.high_watermark, read.last_stable_offset, read.log_start_offset, read.records
    )
    # Only what overlaps the batches that were read: one far behind need not take in every abort since.
    result.aborted_transactions = read.aborted_transactions
    return result
