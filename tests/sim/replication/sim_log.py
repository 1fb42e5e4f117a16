"""A replica's log in memory, with entries instead of batches, and a synced part.

The last offset of each producer replaces the producer state; the producer of a value is `producer_of(value)`.
The log has the operations of PartitionLog that `tidelog.broker.partitions.partition.Partition`,
`tidelog.broker.fetching.fetch_read` and the follower's state machine use.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from types import SimpleNamespace
from typing import NamedTuple

from tests.support.configs import log_config
from tidelog.cluster.replication.follower_state import RestartFromRemote
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.storage.leader_epoch import LeaderEpochCache
from tidelog.storage.producers.producer_entry import BatchMetadata, ProducerEntry
from tidelog.storage.producers.producer_snapshot import decode_snapshot, encode_snapshot

PRODUCERS = 5


class Entry(NamedTuple):
    """One record: its epoch and its value."""

    epoch: int
    value: str


def producer_of(value: str) -> int:
    """Return the producer of a value."""
    return int(value[1:]) % PRODUCERS


class Entries(list[Entry]):
    """The entries that a fetch read."""

    @property
    def length(self) -> int:
        """Return the number of entries as the size in bytes."""
        return len(self)


class SimProducers:
    """Replaces ProducerStateManager; there are no verifications of transactions."""

    def forget_verifications(self) -> None:
        """Do nothing."""


class SimRemoteBorder:
    """Replaces RemoteBorder; reports about the tier are ignored."""

    def forget(self) -> None:
        """Do nothing."""


class SimEpochFile:
    """Replaces LeaderEpochFileCache."""

    def __init__(self, log: SimLog) -> None:
        self._log = log

    def note(self, epoch: int, start_offset: int) -> None:
        """Record an epoch without records; a crash loses it, see `SimLog.reopen`."""
        self._log.leader_epochs.assign(epoch, start_offset)


class SimDurability:
    """Replaces Durability; flush.messages requires no flush."""

    must_flush = False

    def __init__(self, log: SimLog) -> None:
        self._log = log

    @property
    def committable_end(self) -> int:
        """The end of the records that count for the high watermark: all of them."""
        return self._log.log_end_offset


class SimLog:
    """The log of one replica. Entries below `synced_end` survive a crash; leader epochs always survive."""

    def __init__(self, min_insync_replicas: int) -> None:
        self.producers = SimProducers()
        self.remote_border = SimRemoteBorder()
        self.epoch_file = SimEpochFile(self)
        self.durability = SimDurability(self)
        self.config = log_config(min_insync_replicas=min_insync_replicas)
        self.log_start_offset = 0
        self.entries: list[Entry] = []
        """The local entries, from offset `base` on."""
        self.base = 0
        """The first local offset."""
        self.producers_at_base: dict[int, int] = {}
        """The last offset of each producer below `base`."""
        self.leader_epochs = LeaderEpochCache()
        self.high_watermark = 0
        self.synced_end = 0
        self.checkpointed_high_watermark = 0
        self.failure: object | None = None
        self.remote_log_enabled = False

    @property
    def log_end_offset(self) -> int:
        """Return the offset of the next entry."""
        return self.base + len(self.entries)

    @property
    def local_log_start_offset(self) -> int:
        """Return the first local offset; earlier ones from the log start are in the tier."""
        return self.base

    @property
    def last_stable_offset(self) -> int:
        """Return the high watermark, as there are no transactions."""
        return self.high_watermark

    def entry(self, offset: int) -> Entry | None:
        """Return the entry at `offset`; None if it is not local."""
        index = offset - self.base
        return self.entries[index] if 0 <= index < len(self.entries) else None

    def last_offsets_of_producers(self, end: int | None = None) -> dict[int, int]:
        """Return the last offset of each producer below `end`, or of all."""
        offsets = dict(self.producers_at_base)
        for index, entry in enumerate(self.entries[: None if end is None else end - self.base]):
            offsets[producer_of(entry.value)] = self.base + index
        return offsets

    def producers_at(self, end: int) -> bytes:
        """Return the same as a snapshot."""
        entries = []
        for producer, last_offset in self.last_offsets_of_producers(end).items():
            entry = ProducerEntry(producer_id=producer, producer_epoch=0)
            entry.batches.append(BatchMetadata(0, last_offset, 0, 0))
            entries.append(entry)
        return encode_snapshot(entries)

    def delete_local(self, offset: int) -> None:
        """Delete local entries below `offset`, which are in the tier."""
        self.producers_at_base = self.last_offsets_of_producers(offset)
        del self.entries[: offset - self.base]
        self.base = offset
        self.synced_end = max(self.synced_end, offset)

    # -- leader

    def append_as_leader(self, records: str, leader_epoch: int, now_ms: int, **_: object) -> SimpleNamespace:
        """Append one value."""
        self.leader_epochs.assign(leader_epoch, self.log_end_offset)
        self.entries.append(Entry(leader_epoch, records))
        return SimpleNamespace(last_offset=self.log_end_offset - 1)

    def advance_high_watermark(self, offset: int) -> bool:
        """Raise the high watermark, at most to the log end."""
        offset = min(offset, self.log_end_offset)
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        return True

    def read(
        self, offset: int, max_bytes: int, *, upper_bound: int | None = None, **_: object
    ) -> SimpleNamespace:
        """Return at most `max_bytes` entries from `offset`."""
        if self.log_start_offset <= offset < self.base:
            raise KafkaError(ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE, f"{offset} is in the tier only")
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is not in this log")
        first = offset - self.base
        end = len(self.entries) if upper_bound is None else upper_bound - self.base
        entries = Entries(self.entries[first : min(first + max_bytes, end)])
        return SimpleNamespace(
            records=entries or None,
            high_watermark=self.high_watermark,
            last_stable_offset=self.high_watermark,
            log_start_offset=self.log_start_offset,
            aborted_transactions=None,
        )

    # -- follower

    def append_as_follower(self, entries: list[Entry]) -> None:
        """Append fetched entries."""
        for entry in entries:
            self.leader_epochs.assign(entry.epoch, self.log_end_offset)
            self.entries.append(entry)

    def truncate_to(self, offset: int) -> None:
        """Truncate durably."""
        if offset < self.log_start_offset:
            self.restart_at(offset)
            return
        if offset < self.base:
            epochs = self.leader_epochs.entries_in_range(self.log_start_offset, offset)
            self._begin_at(offset, self.log_start_offset, LeaderEpochCache.of(epochs), {})
            return
        del self.entries[offset - self.base :]
        self._follow_end()

    def restart_at(self, offset: int) -> None:
        """Empty the log and restart it durably at `offset`."""
        self._begin_at(offset, offset, LeaderEpochCache(), {})

    def restart_from_remote(self, action: RestartFromRemote) -> None:
        """Empty the log and restart it durably after the remote records."""
        epochs = LeaderEpochCache.of(action.leader_epochs)
        producers = decode_snapshot(action.producer_snapshot or b"", "stored")
        last_offsets = {entry.producer_id: entry.last_offset for entry in producers}
        self._begin_at(action.offset, action.log_start_offset, epochs, last_offsets)

    def _begin_at(
        self, offset: int, log_start_offset: int, epochs: LeaderEpochCache, producers: dict[int, int]
    ) -> None:
        self.entries = []
        self.base, self.log_start_offset = offset, log_start_offset
        self.leader_epochs, self.producers_at_base = epochs, producers
        self.high_watermark = self.synced_end = self.checkpointed_high_watermark = offset

    def advance_log_start_offset(self, offset: int) -> None:
        """Delete entries below the offset."""
        offset = min(offset, self.high_watermark)
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.leader_epochs.truncate_from_start(offset)
            if offset > self.base:
                self.delete_local(offset)

    def _follow_end(self) -> None:
        end = self.log_end_offset
        self.leader_epochs.truncate_from_end(end)
        self.high_watermark = min(self.high_watermark, end)
        self.synced_end = min(self.synced_end, end)

    # -- the disk

    def flush(self) -> None:
        """Make everything durable."""
        self.synced_end = self.log_end_offset

    def checkpoint(self) -> None:
        """Checkpoint the high watermark."""
        self.checkpointed_high_watermark = self.high_watermark

    def crash(self, rng: Random) -> None:
        """Lose some or all unsynced entries, and restart from the checkpointed high watermark."""
        unsynced = self.log_end_offset - max(self.synced_end, self.base)
        if unsynced > 0:
            kept = rng.choice((0, unsynced, rng.randint(0, unsynced)))
            del self.entries[len(self.entries) - (unsynced - kept) :]
        self._follow_end()
        self.reopen()

    def reopen(self) -> None:
        """Start after a clean or unclean stop."""
        self.leader_epochs.truncate_from_end(self.log_end_offset)
        lowest = self.base
        self.high_watermark = max(lowest, min(self.checkpointed_high_watermark, self.log_end_offset))

    def wipe(self) -> None:
        """Replace the disk by an empty one."""
        self.restart_at(0)

    # -- used by Partition

    @contextmanager
    def storage_errors(self, _: str) -> Iterator[None]:
        """Run the block; this disk does not fail."""
        yield
