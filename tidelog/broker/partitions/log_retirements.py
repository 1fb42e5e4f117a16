"""The logs of partitions that have left this node, until their retirement is queued.

One metadata update can remove 10,000 partitions. Their retirements are planned in several turns of the event
loop. If a partition of the same name is created in the meantime, the retirement of the old log is planned
before the creation of the new one.

Bounds: one entry for each removed partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from tidelog.broker.partitions.log_work import LogWork
from tidelog.protocol.ids import TopicPartition
from tidelog.storage.directories.log_directory import Retirement
from tidelog.storage.directories.log_manager import LogManager

RETIREMENTS_PER_TURN: Final = 100
"""Planning this many takes about 2 ms."""


class LogRetirements:
    """Plans the retirements of logs, in the order in which their partitions were removed."""

    def __init__(self, logs: LogManager, log_work: LogWork) -> None:
        self._logs = logs
        self._log_work = log_work
        self._pending: dict[TopicPartition, None] = {}
        """Removed partitions whose retirement is not planned yet, in order."""

    def add(self, topic_partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """Retire the logs of removed partitions: some now, the others in later turns of the event loop."""
        self._pending.update(dict.fromkeys(topic_partitions))
        self._submit_some(now_ms)

    def submit(self, topic_partition: TopicPartition, now_ms: int) -> None:
        """Queue the retirement of the log of one partition now, if it is not planned yet."""
        retirements = self.plan(topic_partition, now_ms)
        if retirements:
            self._log_work.submit(retirements)

    def plan(self, topic_partition: TopicPartition, now_ms: int) -> Sequence[Retirement]:
        """Return the retirements of the log of one partition, which the caller queues; none if planned."""
        if topic_partition not in self._pending:
            return ()
        del self._pending[topic_partition]
        return self._logs.planned_deletions([topic_partition], now_ms)

    def _submit_some(self, now_ms: int) -> None:
        batch = list(islice(self._pending, RETIREMENTS_PER_TURN))
        for topic_partition in batch:
            del self._pending[topic_partition]
        if self._pending:
            self._log_work.call_soon(lambda: self._submit_some(now_ms))
        if batch:
            self._log_work.submit(self._logs.planned_deletions(batch, now_ms))
