"""The metrics of the log cleaner, under Kafka's names of LogCleaner and LogCleanerManager."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.logs.cleaning.log_cleaner import LogCleaner
from tidelog.broker.observability.metrics import BrokerMetrics, Reading
from tidelog.storage.directories.log_manager import LogManager
from tidelog.storage.log.partition_log import PartitionLog


def report_cleaning(metrics: BrokerMetrics, cleaner: LogCleaner, logs: LogManager) -> None:
    """Register the metrics of uncleanable logs, of dirty ratios, and of the cleaners' last rounds."""
    _report_uncleanable(metrics, cleaner, logs)

    def most_of(values: list[float]) -> float:
        return max(values, default=0.0)

    def recopied() -> float:
        rounds = cleaner.stats.values()
        return sum(one.bytes_written for one in rounds) / max(1, sum(one.bytes_read for one in rounds))

    for name, documentation, read in (
        (
            "manager_max_dirty_percent",
            "Dirty ratio of the dirtiest log.",
            lambda: int(100 * cleaner.max_dirty_ratio),
        ),
        (
            "manager_time_since_last_run_seconds",
            "Time since the last search for dirty logs.",
            lambda: cleaner.idle_ms / 1000,
        ),
        (
            "_max_buffer_utilization_percent",
            "Utilization of the offset map in the last rounds.",
            lambda: int(100 * most_of([one.map_utilization for one in cleaner.stats.values()])),
        ),
        (
            "_cleaner_recopy_percent",
            "Share of the bytes that remained after the last rounds.",
            lambda: int(100 * recopied()),
        ),
        (
            "_max_clean_time_seconds",
            "Duration of the longest of the last rounds.",
            lambda: most_of([one.elapsed_ms / 1000 for one in cleaner.stats.values()]),
        ),
        (
            "_max_compaction_delay_seconds",
            "How much longer than max.compaction.lag.ms a record has waited.",
            lambda: cleaner.max_delay_ms / 1000,
        ),
        ("_deadthreadcount", "Cleaners that have ended unexpectedly.", lambda: cleaner.dead_count),
    ):
        metrics.gauge("kafka_log_logcleaner" + name, documentation, read)


def _report_uncleanable(metrics: BrokerMetrics, cleaner: LogCleaner, logs: LogManager) -> None:
    def by_directory(value: Callable[[PartitionLog], int]) -> Callable[[], Reading]:
        def read() -> Reading:
            return {
                (directory.path,): sum(
                    value(log) for log in directory.logs.values() if log in cleaner.uncleanable
                )
                for directory in logs.directories
            }

        return read

    for name, documentation, value in (
        (
            "partitions",
            "Logs that are not compacted because their compaction failed.",
            lambda log: 1,
        ),
        ("bytes", "Bytes of these logs.", lambda log: log.size_bytes),
    ):
        metrics.gauge(
            "kafka_log_logcleanermanager_uncleanable_" + name,
            documentation,
            by_directory(value),
            ("logdirectory",),
        )
