"""What the reader of remote segments is asked for, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from tidelog.protocol.ids import Offset
from tidelog.remote.ports.segment_metadata import TopicIdPartition
from tidelog.storage.leader_epoch import LeaderEpochCache
from tidelog.storage.segment.txn_index import AbortedTransaction

Records: TypeAlias = bytes | memoryview


class LocalLog(Protocol):
    """What the reader has to know of a partition's local log; asked on the event loop only."""

    @property
    def leader_epochs(self) -> LeaderEpochCache:
        """The lineage of the log: it decides which remote segments belong to it."""
        ...

    @property
    def local_log_start_offset(self) -> Offset:
        """The first offset on the local disk."""
        ...

    def aborted_transactions(self, start: Offset, upper_bound: Offset) -> list[AbortedTransaction]:
        """The aborted transactions that overlap [`start`, `upper_bound`), of those that end locally."""
        ...


@dataclass(frozen=True, slots=True)
class RemoteReadRequest:
    """Batches from the one that holds `offset` on, below `upper_bound` (exclusive).

    At most `max_bytes`, but with `at_least_one` the first batch comes whatever its size.
    """

    topic_id_partition: TopicIdPartition
    offset: Offset
    max_bytes: int
    at_least_one: bool
    upper_bound: Offset
    with_aborted: bool
    log: LocalLog


@dataclass(frozen=True, slots=True)
class RemoteRead:
    """Whole batches of one remote segment; none when nothing fits or nothing is there."""

    records: Records
    next_offset: Offset
    """Behind the last batch; the offset asked for when there is none."""
    aborted_transactions: list[AbortedTransaction] | None = None
    """None unless they were asked for."""


@dataclass(frozen=True, slots=True)
class TimestampSearch:
    """The first record at `starting_offset` or above whose timestamp in ms is >= `timestamp`."""

    topic_id_partition: TopicIdPartition
    timestamp: int
    starting_offset: Offset
    log: LocalLog
