"""The object store of a simulated cluster: one bucket for all nodes, with the faults of real stores.

unavailable     every request fails, as with responses 503
failure_share   a part of the requests fails without an effect
loss_share      a part of the writes and deletions has its effect, but its response is lost
delay_ns_max    requests take up to this time longer
stale_ns        listings show the state before this time

A request has its effect at one moment. Its thread is then occupied for the time of the request.
"""

from __future__ import annotations

import io
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from tidelog.remote.objects.stores.port import (
    Content,
    ObjectInfo,
    check_key,
    check_range,
    missing,
    range_length,
)
from tidelog.remote.ports.storage_manager import ReadableStream, RemoteStorageError, StoreUnavailable
from tidelog.testing.simulation.crash_file_system import SimulatedCrash
from tidelog.testing.simulation.scheduler import MS, Scheduler
from tidelog.testing.simulation.states import ProcessState

NAME: Final = "simulated store"
OnRequest: TypeAlias = Callable[[ProcessState, str, str], None]
USUAL_DELAY_NS: Final = (2 * MS, 20 * MS)
CHANGES_MAX: Final = 10_000
_READ_BYTES: Final = 1 << 20


class SimulatedBucket:
    """The objects, by key, and the faults of the store."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.objects: dict[str, bytes] = {}
        self.created_ns: dict[str, int] = {}
        """The time of the last write of each object."""
        self.is_unavailable = False
        self.failure_share = 0.0
        self.loss_share = 0.0
        self.delay_ns_max = 0
        self.stale_ns = 0
        self.on_request: list[OnRequest] = []
        """Called before each request with the process, the action and the key; may end the process."""
        self._changes: deque[tuple[int, str, int | None]] = deque(maxlen=CHANGES_MAX)
        """The time of each change, its key, and the size of the object before; None if there was none."""

    def open(self, process: ProcessState) -> SimulatedObjectStore:
        """Return the store as a process uses it."""
        return SimulatedObjectStore(self, process)

    def heal(self) -> None:
        """End all faults."""
        self.is_unavailable = False
        self.failure_share = self.loss_share = 0.0
        self.delay_ns_max = self.stale_ns = 0

    def replace(self, key: str, data: bytes | None) -> None:
        """Write an object, or delete it."""
        before = self.objects.get(key)
        self._changes.append((self.scheduler.now_ns, key, None if before is None else len(before)))
        if data is None:
            self.objects.pop(key, None)
            self.created_ns.pop(key, None)
        else:
            self.objects[key] = data
            self.created_ns[key] = self.scheduler.now_ns

    def sizes(self) -> dict[str, int]:
        """Return the size of each object as listings show it now."""
        sizes = {key: len(data) for key, data in self.objects.items()}
        for time_ns, key, size in reversed(self._changes):
            if time_ns <= self.scheduler.now_ns - self.stale_ns:
                break
            if size is None:
                sizes.pop(key, None)
            else:
                sizes[key] = size
        return sizes


class SimulatedObjectStore:
    """The port `ObjectStore` of one process."""

    def __init__(self, bucket: SimulatedBucket, process: ProcessState) -> None:
        self._bucket = bucket
        self._process = process

    def put(self, key: str, content: Content, size: int | None = None) -> bool | None:
        """Write an object."""
        check_key(NAME, key)
        data = _bytes_of(content)
        if size is not None and size != len(data):
            raise RemoteStorageError(f"{NAME}: {key!r} has {len(data)} bytes, not {size}")
        self._request("put", key)
        self._bucket.replace(key, data)
        self._respond("put", key)
        return None

    def get(self, key: str, start: int | None = None, end: int | None = None) -> ReadableStream:
        """Return a range of an object."""
        check_range(start, end)
        self._request("get", key)
        data = self._bucket.objects.get(key)
        if data is None:
            raise missing(NAME, key)
        first = start or 0
        return io.BytesIO(data[first : first + range_length(NAME, key, len(data), start, end)])

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects, one after the other."""
        for key in keys:
            self._request("delete", key)
            if key in self._bucket.objects:
                self._bucket.replace(key, None)
            self._respond("delete", key)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """Return the objects whose keys begin with `prefix`; the newest ones may be missing."""
        self._request("list", prefix)
        for key, size in sorted(self._bucket.sizes().items()):
            if key.startswith(prefix) and key > start_after:
                yield ObjectInfo(key, size)

    def size(self, key: str) -> int:
        """Return the size of an object."""
        self._request("head", key)
        data = self._bucket.objects.get(key)
        if data is None:
            raise missing(NAME, key)
        return len(data)

    def close(self) -> None:
        """Do nothing."""

    def _request(self, action: str, key: str) -> None:
        """Spend the time of a request. Errors: StoreUnavailable."""
        bucket, process = self._bucket, self._process
        for on_request in list(bucket.on_request) if process.is_running else ():
            on_request(process, action, key)
        if not process.is_running:
            raise SimulatedCrash(f"{action} {key}")
        rng = bucket.scheduler.rng
        process.spend(bucket.scheduler.between(*USUAL_DELAY_NS))
        if bucket.delay_ns_max:
            process.spend(rng.randrange(bucket.delay_ns_max))
        trace = bucket.scheduler.trace
        trace.add(trace.code(f"store {process.name}"), zlib.crc32(f"{action} {key}".encode()))
        if bucket.is_unavailable or rng.random() < bucket.failure_share:
            raise StoreUnavailable(f"{NAME}: cannot {action} {key!r}: 503 Slow Down")

    def _respond(self, action: str, key: str) -> None:
        """Lose the response of a request that had its effect. Errors: StoreUnavailable."""
        if self._bucket.scheduler.rng.random() < self._bucket.loss_share:
            raise StoreUnavailable(f"{NAME}: cannot {action} {key!r}: the connection was reset")


def _bytes_of(content: Content) -> bytes:
    """Return all bytes of a content."""
    if isinstance(content, (bytes, bytearray, memoryview)):
        return bytes(content)
    pieces = []
    while piece := content.read(_READ_BYTES):
        pieces.append(bytes(piece))
    return b"".join(pieces)
