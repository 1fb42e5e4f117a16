"""Object stores in memory: plain, counting, and failing ones."""

from __future__ import annotations

import builtins
import io
import threading
from collections.abc import Callable, Iterable, Iterator
from enum import Enum, auto
from typing import NamedTuple

from tests.support.waiting import TIMEOUT_S
from tidelog.remote.objects.stores.port import Content, InvalidRange, ObjectInfo
from tidelog.remote.ports.storage_manager import ReadableStream, RemoteResourceNotFound, RemoteStorageError


class Call(NamedTuple):
    """A recorded call; `start` and `end` are those of a get, both inclusive."""

    name: str
    key: str
    start: int | None = None
    end: int | None = None


class MemoryStore:
    """Stores objects in a dict and records every call."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.calls: list[Call] = []
        self.is_closed = False
        self._lock = threading.Lock()

    def put(self, key: str, content: Content, size: int | None = None) -> None:
        """Store an object."""
        self._note(Call("put", key))
        if isinstance(content, (bytes, bytearray, memoryview)):
            data = bytes(content)
        else:
            data = b"".join(iter(lambda: content.read(997), b""))
        if size is not None and size != len(data):
            raise RemoteStorageError(f"{key}: {len(data)} bytes instead of the declared {size}")
        self.objects[key] = data

    def get(self, key: str, start: int | None = None, end: int | None = None) -> ReadableStream:
        """Return the bytes of an object from `start` to `end`, inclusive."""
        self._note(Call("get", key, start, end))
        data = self.objects.get(key)
        if data is None:
            raise RemoteResourceNotFound(f"there is no object {key!r}")
        if (start or 0) >= max(1, len(data)):
            raise InvalidRange(f"byte {start} of {key!r} is behind its end")
        return io.BytesIO(data[start or 0 : None if end is None else end + 1])

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects."""
        for key in keys:
            self._note(Call("delete", key))
            self.objects.pop(key, None)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """Return the objects whose keys begin with `prefix`."""
        return (
            ObjectInfo(key, len(data))
            for key, data in self.objects.items()
            if key.startswith(prefix) and key > start_after
        )

    def size(self, key: str) -> int:
        """Return the size of an object."""
        if key not in self.objects:
            raise RemoteResourceNotFound(f"there is no object {key!r}")
        return len(self.objects[key])

    def close(self) -> None:
        """Record that the store is closed."""
        self.is_closed = True

    def gets(self, suffix: str = ".log") -> builtins.list[Call]:
        """Return the gets of objects of one kind."""
        return [call for call in self.calls if call.name == "get" and call.key.endswith(suffix)]

    def _note(self, call: Call) -> None:
        with self._lock:
            self.calls.append(call)


class FailureKind(Enum):
    """The kind of a failure."""

    BEFORE = auto()
    """The call has no effect."""
    AFTER = auto()
    """The call has its effect, but the caller gets an error."""
    SHORT = auto()
    """The stream of a get ends too early; a put fails after a part of its content was read."""


class FailingStore(MemoryStore):
    """Fails each call in the way that `fails` returns for its number (from 0); None lets it succeed."""

    def __init__(self, fails: Callable[[int], FailureKind | None]) -> None:
        super().__init__()
        self._fails = fails
        self.counted = 0

    def put(self, key: str, content: Content, size: int | None = None) -> None:
        """Store an object."""
        how = self._next()
        if how is FailureKind.SHORT and not isinstance(content, (bytes, bytearray, memoryview)):
            content.read(1)
        if how in (FailureKind.BEFORE, FailureKind.SHORT):
            raise RemoteStorageError(f"{key}: made to fail")
        super().put(key, content, size)
        self._lose_response(how, key)

    def get(self, key: str, start: int | None = None, end: int | None = None) -> ReadableStream:
        """Return the bytes of an object from `start` to `end`, inclusive."""
        how = self._next()
        if how in (FailureKind.BEFORE, FailureKind.AFTER):
            raise RemoteStorageError(f"{key}: made to fail")
        stream = super().get(key, start, end)
        return io.BytesIO(stream.read()[:-1]) if how is FailureKind.SHORT else stream

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; a failure may occur between two keys."""
        for key in keys:
            how = self._next()
            if how in (FailureKind.BEFORE, FailureKind.SHORT):
                raise RemoteStorageError(f"{key}: made to fail")
            super().delete([key])
            self._lose_response(how, key)

    def size(self, key: str) -> int:
        """Return the size of an object; SHORT returns one byte less."""
        how = self._next()
        if how in (FailureKind.BEFORE, FailureKind.AFTER):
            raise RemoteStorageError(f"{key}: made to fail")
        return super().size(key) - (how is FailureKind.SHORT)

    def _next(self) -> FailureKind | None:
        with self._lock:
            number, self.counted = self.counted, self.counted + 1
        return self._fails(number)

    @staticmethod
    def _lose_response(how: FailureKind | None, key: str) -> None:
        if how is FailureKind.AFTER:
            raise RemoteStorageError(f"{key}: made to fail after it was done")


class ForgetfulStore(MemoryStore):
    """Acknowledges every object; of objects with `suffix` it stores only the part that `keeps` returns."""

    def __init__(self, suffix: str, keeps: Callable[[bytes], bytes | None]) -> None:
        super().__init__()
        self._suffix = suffix
        self._keeps = keeps

    def put(self, key: str, content: Content, size: int | None = None) -> None:
        """Store an object."""
        super().put(key, content, size)
        if key.endswith(self._suffix):
            kept = self._keeps(self.objects.pop(key))
            if kept is not None:
                self.objects[key] = kept


class GatedStore(MemoryStore):
    """Blocks gets of logs until the gate is opened; `waiting` counts the blocked gets."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.waiting = 0

    def get(self, key: str, start: int | None = None, end: int | None = None) -> ReadableStream:
        """Return the bytes of an object from `start` to `end`, inclusive."""
        if key.endswith(".log"):
            with self._lock:
                self.waiting += 1
            assert self.gate.wait(TIMEOUT_S)
        return super().get(key, start, end)
