"""The requests and the results of the reader of remote segments."""

from __future__ import annotations

from typing import Protocol, TypeAlias

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import Offset
from tidelog.remote.ports.segment_metadata import TopicIdPartition
from tidelog.storage.leader_epoch import LeaderEpochCache
from tidelog.storage.segment.txn_index import AbortedTransaction

Records: TypeAlias = bytes | memoryview


class LocalLog(Protocol):
    """The reader's view of a partition's local log; used on the event loop only."""

    @property
    def leader_epochs(self) -> LeaderEpochCache:
        """The lineage of the log, which decides which remote segments belong to it."""
        ...

    @property
    def local_log_start_offset(self) -> Offset:
        """The first offset on the local disk."""
        ...

    def aborted_transactions(self, start: Offset, upper_bound: Offset) -> list[AbortedTransaction]:
        """Return the aborted transactions that overlap [`start`, `upper_bound`) and end in the local log."""
        ...


@dataclass(frozen=True, slots=True)
class RemoteReadRequest:
    """A request for batches from the one that contains `offset`, below `upper_bound` (exclusive).

    At most `max_bytes`; with `at_least_one`, the first batch is returned with any size.
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
    """Complete batches of one remote segment; none if nothing fits or nothing exists."""

    records: Records
    next_offset: Offset
    """The offset after the last batch; the requested offset if there is none."""
    aborted_transactions: list[AbortedTransaction] | None = None
    """None unless they were requested."""


@dataclass(frozen=True, slots=True)
class TimestampSearch:
    """A search for the first record at or above `starting_offset` with a timestamp (in ms) >= `timestamp`."""

    topic_id_partition: TopicIdPartition
    timestamp: int
    starting_offset: Offset
    log: LocalLog
