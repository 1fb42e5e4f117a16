"""A worker process of the log cleaner: `python -m tidelog.broker.logs.cleaning.worker PARENT_PID`.

It executes one round after the other, as its node requests through standard input, and replies through
standard output. It reads sealed segments and writes `.cleaned` files, and never changes anything else. It
uses numpy, which the node does not import.

The worker ends when its node does: standard input is then closed, which it detects also during a round; on
Linux the kernel ends it at once.
"""

from __future__ import annotations

import ctypes
import gc
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Final

from tidelog.base.allocator import keep_freed_memory
from tidelog.base.clock import SYSTEM_CLOCK, Clock
from tidelog.base.randomness import SYSTEM_RANDOMNESS, Randomness
from tidelog.broker.logs.cleaning.messages import Message, ReceivedTask, failed_message, receive, send
from tidelog.storage.compaction.cleaning import Background, GroupCleaner, OffsetMapFiller
from tidelog.storage.compaction.key_hashes import SECRET_BYTES, KeyHasher
from tidelog.storage.compaction.offset_map import OffsetMap
from tidelog.storage.compaction.segment_groups import SourceSegment
from tidelog.storage.disk.files import FileSystem
from tidelog.storage.disk.os_files import OsFileSystem

_PR_SET_PDEATHSIG: Final = 1
_CHECK_MS: Final = 50
_WAIT_MS_MAX: Final = 2**31 - 1
_OWN_STDOUT: Final = 1


class Abandoned(Exception):
    """The node has closed its end of the pipe."""


class WorkerPace:
    """Limits the rate of one round, and detects that the node has ended.

    `is_abandoned` waits for at most this number of ms; it returns whether the node has ended.
    Errors: Abandoned.
    """

    def __init__(self, clock: Clock, is_abandoned: Callable[[int], bool], bytes_per_second: float) -> None:
        self._clock = clock
        self._is_abandoned = is_abandoned
        self._ms_per_byte = 1000 / bytes_per_second
        self._bytes = 0
        self._began_ms = self._checked_ms = clock.monotonic_ms()

    def __call__(self, size_bytes: int) -> None:
        """Count bytes that were read or written; wait until the rate is not exceeded."""
        self._bytes += size_bytes
        now_ms = self._clock.monotonic_ms()
        early_ms = int(self._began_ms + self._bytes * self._ms_per_byte - now_ms)
        if early_ms <= 0 and now_ms - self._checked_ms < _CHECK_MS:
            return
        if self._is_abandoned(min(max(early_ms, 0), _WAIT_MS_MAX)):
            raise Abandoned
        self._checked_ms = self._clock.monotonic_ms()


class CleaningSession:
    """Executes one round after the other; `handle` returns the reply to a message, None if it has none."""

    def __init__(
        self,
        fs: FileSystem,
        clock: Clock,
        randomness: Randomness,
        is_abandoned: Callable[[int], bool],
        background: Background,
    ) -> None:
        self._fs = fs
        self._clock = clock
        self._randomness = randomness
        self._is_abandoned = is_abandoned
        self._background = background
        self._received: ReceivedTask | None = None
        self._cleaner: GroupCleaner | None = None
        self._sources: Sequence[SourceSegment] = ()

    def handle(self, message: Message) -> Message | None:
        """Execute what a message requests. Errors: Abandoned."""
        kind, *values = message
        try:
            if kind == "round":
                self._received, self._cleaner = ReceivedTask(*values), None
            elif kind == "end":
                self._received = self._cleaner = None
            elif kind == "fill":
                return self._fill()
            elif kind == "clean":
                return self._clean(*values)
            elif kind == "sync":
                self._started_cleaner().sync()
                return ["synced"]
            else:
                assert self._received is not None, f"a message {kind} before a round"
                self._received.add(kind, *values)
        except Abandoned:
            raise
        except Exception as error:
            self._cleaner = None
            return failed_message(error, traceback.format_exc())
        return None

    def _fill(self) -> Message:
        assert self._received is not None, "no round was described"
        task, limits = self._received.task(), self._received.limits
        pace = WorkerPace(self._clock, self._is_abandoned, limits.bytes_per_second)
        offsets = OffsetMap.within(
            KeyHasher(self._randomness.getrandbits(8 * SECRET_BYTES).to_bytes(SECRET_BYTES)),
            limits.map_bytes,
            limits.load_factor,
            record_count_max=task.dirty_count_max,
        )
        end_offset = OffsetMapFiller(self._fs, task, offsets, pace).fill()
        self._sources = task.sources
        self._cleaner = GroupCleaner(self._fs, task, offsets, pace, self._background)
        return ["filled", end_offset, offsets.utilization]

    def _clean(self, first: int, end: int) -> Message:
        cleaner = self._started_cleaner()
        cleaner.clean(self._sources[first:end])
        return ["cleaned", cleaner.bytes_read, cleaner.bytes_written]

    def _started_cleaner(self) -> GroupCleaner:
        assert self._cleaner is not None, "the offset map is not filled"
        return self._cleaner


def main() -> None:
    """Serve the node whose process id is the first argument, until it closes standard input."""
    _end_with_parent(int(sys.argv[1]))
    # A Ctrl-C in a terminal reaches every process there; the node ends its workers itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    keep_freed_memory()  # of each window of batches, for the next one
    # Nothing else may write to the pipe of the replies.
    replies = os.fdopen(os.dup(_OWN_STDOUT), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), _OWN_STDOUT)
    requests = sys.stdin.buffer
    syncing = ThreadPoolExecutor(1, thread_name_prefix="sync")
    session = CleaningSession(
        OsFileSystem(),
        SYSTEM_CLOCK,
        SYSTEM_RANDOMNESS,
        _Hangup(requests).is_seen,
        lambda work: syncing.submit(work).result,
    )
    # The collector would search the tuples of thousands of batches again and again, which takes a third of
    # the time if batches are small. There are no cycles in what a round creates, except for its errors.
    gc.disable()
    gc.freeze()
    try:
        while (message := receive(requests)) is not None:
            if message[0] == "round":
                gc.collect()
            reply = session.handle(message)
            if reply is not None:
                send(replies, reply)
    except (Abandoned, BrokenPipeError):
        pass


class _Hangup:
    def __init__(self, requests: IO[bytes]) -> None:
        self._poll = select.poll()
        # The node sends nothing while it waits for a reply, so only the end of the pipe is an event.
        self._poll.register(requests.fileno(), 0)

    def is_seen(self, timeout_ms: int) -> bool:
        """Return whether the node has closed the pipe; wait for at most `timeout_ms`."""
        return bool(self._poll.poll(timeout_ms))


def _end_with_parent(parent_pid: int) -> None:
    """Let the kernel end this process when its parent ends, if it can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent_pid:
        sys.exit(0)  # it had ended before


if __name__ == "__main__":
    main()
