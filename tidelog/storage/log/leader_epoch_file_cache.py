"""The leader epochs of one log in memory, and their file `leader-epoch-checkpoint`.

An append only adds its epoch to the cache. The next flush writes the file, outside of the event loop:

| event | the file |
|---|---|
| an append begins an epoch | is written with the next flush, before the recovery point rises |
| the cache drops epochs that the file may contain | is written at once, with fsync |
| the log start rises | is not written: opening the log drops the same epochs |
| local segments of a tiered log are deleted | is written at once, if it lacks epochs |

A crash can therefore lose only epochs that begin at or above the recovery point. Recovery reads the batches
from there on and adds their epochs again. An epoch that the file has in excess could not be recognized that
way if later batches have lower epochs.

Kafka 4.3 writes the file with fsync at each new epoch (`LeaderEpochFileCache.assign`), and defers only
truncations (KAFKA-15046). Here one thread owns thousands of logs, which may all get a new leader at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from threading import Lock
from typing import NamedTuple

from tidelog.protocol.ids import LeaderEpoch, Offset
from tidelog.storage.disk.checkpoints import LeaderEpochCheckpoint
from tidelog.storage.disk.errors import StorageFailure, is_descriptor_shortage
from tidelog.storage.leader_epoch import EpochEntry, LeaderEpochCache
from tidelog.storage.log.remote_border import RemoteBorder


class EpochWrite(NamedTuple):
    """A deferred write of the file: `run` blocks, and may run in any thread."""

    version: int
    run: Callable[[], None]


class LeaderEpochFileCache:
    """The leader epochs of one log, with the state of their file.

    Invariant: the file contains every epoch that begins below the recovery point. Versions count the contents
    that the file is to have.
    """

    __slots__ = (
        "_border",
        "_durable_version",
        "_is_file_contradicted",
        "_last_in_file",
        "_version",
        "_writer",
        "cache",
        "current_epoch",
    )

    def __init__(
        self, cache: LeaderEpochCache, checkpoint: LeaderEpochCheckpoint, border: RemoteBorder
    ) -> None:
        """`cache` has the contents of the file."""
        self.cache = cache
        self.current_epoch: LeaderEpoch | None = cache.latest_epoch
        """The epoch that an append need not assign; None if the next append must assign its epoch."""
        self._border = border
        self._writer = _EpochWriter(checkpoint)
        self._version = self._durable_version = 0
        self._last_in_file = cache.latest_entry
        self._is_file_contradicted = False

    def assign(self, epoch: LeaderEpoch, start_offset: Offset) -> None:
        """Record that `epoch` starts at `start_offset`; every append does so before its records are written.

        A negative epoch is ignored. I/O: only if the file contradicts the cache; see the module.
        Errors: OSError, StorageFailure of that write; then nothing has changed.
        """
        if epoch < 0:
            return
        before = self.cache.entries
        self.cache.assign(epoch, start_offset)
        if not self._is_file_contradicted and not self._contradicts_file():
            self._version += 1
            self.current_epoch = self.cache.latest_epoch
            return
        try:
            self.write()
        except (OSError, StorageFailure):
            self.cache = LeaderEpochCache.of(before)
            raise

    def note(self, epoch: LeaderEpoch, start_offset: Offset) -> None:
        """Record that `epoch` starts at `start_offset`, before there is a record of it.

        A leader does so when it is elected, to respond to requests. The file gets the epoch with its first
        record: without one the next leader has a greater epoch, and nothing is lost.
        """
        if epoch >= 0 and self.cache.assign(epoch, start_offset):
            self.current_epoch = None

    def replace(self, entries: Iterable[EpochEntry], start_offset: Offset, end_offset: Offset) -> None:
        """Replace all epochs by those of `entries` from `start_offset` to `end_offset`, durably."""
        self.cache = LeaderEpochCache.of(entries)
        self.cache.truncate_from_end(end_offset)
        self.cache.truncate_from_start(start_offset)
        self.write()

    def truncate_from_start(self, start_offset: Offset) -> None:
        """Drop epochs that end at or below a log's new start; the file is not written."""
        self.cache.truncate_from_start(start_offset)

    def truncate_from_end(self, end_offset: Offset) -> bool:
        """Drop epochs that start at or above a log's new end; return whether there were any.

        The caller writes the file after that: `write` or `write_if_possible`.
        """
        return self.cache.truncate_from_end(end_offset)

    def clear(self) -> bool:
        """Drop all epochs; return whether there were any. The caller writes the file after that."""
        return self.cache.clear()

    # -- the file

    def write(self) -> None:
        """Write the file now, durably. If that fails, the next append tries again."""
        self.current_epoch = None
        self._is_file_contradicted = True
        write = self._prepare()
        write.run()
        self.on_written(write)
        self.current_epoch = self.cache.latest_epoch

    def write_if_possible(self) -> None:
        """Write the file now, or with the next append if no file descriptor is available.

        If the process crashes before that, the epochs in excess are dropped when the log is opened.
        """
        try:
            self.write()
        except OSError as error:
            if not is_descriptor_shortage(error):
                raise

    def write_if_outdated(self) -> None:
        """Write the file now, durably, if it does not contain all epochs."""
        if self._is_outdated:
            self.write()

    def planned_write(self) -> EpochWrite | None:
        """Return the deferred write, None if the file is up to date; `on_written` follows its success."""
        return self._prepare() if self._is_outdated else None

    def on_written(self, write: EpochWrite) -> None:
        """Record that a write has run without an error."""
        self._durable_version = max(self._durable_version, write.version)
        if write.version == self._version:
            self._is_file_contradicted = False

    def relocate(self, checkpoint: LeaderEpochCheckpoint) -> None:
        """Use another file, which contains exactly the epochs of the cache, durably."""
        self.retire()
        self._writer = _EpochWriter(checkpoint)
        self._version += 1
        self._durable_version = self._version
        self._last_in_file = self.cache.latest_entry
        self._is_file_contradicted = False

    def retire(self) -> None:
        """Begin no further write of the file: the partition's directory gets another name, or is offline."""
        self._writer.is_retired = True

    def wait_for_write(self) -> None:
        """Wait until no thread is writing the file. I/O: blocks; call it from any thread after `retire`."""
        self._writer.wait()

    @property
    def _is_outdated(self) -> bool:
        return self._version != self._durable_version or self._is_file_contradicted

    def _prepare(self) -> EpochWrite:
        self._border.checkpoint_start_in_local_part()
        self._version += 1
        self._last_in_file = self.cache.latest_entry
        return EpochWrite(self._version, partial(self._writer.write, self._version, self.cache.entries))

    def _contradicts_file(self) -> bool:
        """Return whether recovery could keep the file's last epoch in place of the latest epoch."""
        last, latest = self._last_in_file, self.cache.latest_entry
        if last is None or latest is None:
            return last is not None
        if last.epoch == latest.epoch:
            return last.start_offset > latest.start_offset
        return last.epoch > latest.epoch or last.start_offset >= latest.start_offset


class _EpochWriter:
    """Writes versions of the file from any thread; an older version never replaces a newer one."""

    __slots__ = ("_checkpoint", "_lock", "_version_in_file", "is_retired")

    def __init__(self, checkpoint: LeaderEpochCheckpoint) -> None:
        self._checkpoint = checkpoint
        self._lock = Lock()
        self._version_in_file = 0
        self.is_retired = False

    def write(self, version: int, entries: list[EpochEntry]) -> None:
        """Replace the file, durably, unless it has this version or a newer one, or is retired."""
        with self._lock:
            if version > self._version_in_file and not self.is_retired:
                self._checkpoint.write(entries)
                self._version_in_file = version

    def wait(self) -> None:
        """Wait for a write that is running."""
        with self._lock:
            pass
