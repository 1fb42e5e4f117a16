"""What a node does with its object store: requests and bytes by topic and kind, and outages by kind of work.

Requests cost money by kind. Stores of S3 report every HTTP request, including retries and the parts of an
upload; of other stores, every call counts as one request.

Bounds: TOPICS_MAX topics; the requests of further ones are counted without a topic.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, NamedTuple

from tidelog.base.outage import Outage
from tidelog.remote.objects.layout.object_keys import parse_key
from tidelog.remote.objects.stores.port import Content, ObjectInfo, ObjectStore, RequestKind, Source
from tidelog.remote.ports.storage_manager import ReadableStream, RemoteResourceNotFound, StoreUnavailable

TOPICS_MAX: Final = 10_000


class Traffic(NamedTuple):
    """Requests, and bytes of objects that were sent or received."""

    requests: int = 0
    size_bytes: int = 0


class StoreActivity:
    """Counts requests and bytes, and tracks outages. Thread-safe."""

    def __init__(self, copies: Outage, reads: Outage, deletions: Outage) -> None:
        self._outages = {
            RequestKind.PUT: copies,
            RequestKind.GET: reads,
            RequestKind.HEAD: reads,
            RequestKind.LIST: reads,
            RequestKind.DELETE: deletions,
        }
        self._lock = threading.Lock()
        self._traffic: dict[tuple[str, RequestKind], Traffic] = {}
        self._topics: set[str] = set()
        self._current = threading.local()
        self._has_ended = False

    def traffic(self) -> dict[tuple[str, RequestKind], Traffic]:
        """Return the totals by topic and kind; the topic is empty for other objects."""
        with self._lock:
            return dict(self._traffic)

    def failures(self) -> dict[RequestKind, int]:
        """Return the failures of the outages of writes, reads and deletions; 0 for one that has not begun."""
        kinds = (RequestKind.PUT, RequestKind.GET, RequestKind.DELETE)
        statuses = {kind: self._outages[kind].status for kind in kinds}
        return {kind: 0 if status is None else status.failures for kind, status in statuses.items()}

    def end(self) -> None:
        """Record no further outage: closing the store ends calls in progress."""
        self._has_ended = True

    @contextmanager
    def call(self, topic: str, kind: RequestKind, *, is_request: bool, is_own: bool = True) -> Iterator[None]:
        """Attribute the requests of this thread to `topic`, and record the outcome of the call.

        With `is_request`, the call counts as one request. Without `is_own`, the store is that of a mount,
        whose failures are no outage of the node's own store.
        """
        self._current.topic = topic
        if is_request:
            self.on_request(kind)
        try:
            yield
        except StoreUnavailable as error:
            if is_own and not self._has_ended:
                self._outages[kind].on_failure(str(error))
            raise
        except RemoteResourceNotFound:
            if is_own:
                self._outages[kind].on_success()
            raise
        else:
            if is_own:
                self._outages[kind].on_success()

    def on_request(self, kind: RequestKind) -> None:
        """Count a request of the call that this thread makes."""
        self._add(getattr(self._current, "topic", ""), kind, Traffic(1, 0))

    def add_bytes(self, topic: str, kind: RequestKind, size_bytes: int) -> None:
        """Count bytes that were sent or received."""
        self._add(topic, kind, Traffic(0, size_bytes))

    def _add(self, topic: str, kind: RequestKind, more: Traffic) -> None:
        with self._lock:
            if topic not in self._topics:
                if len(self._topics) >= TOPICS_MAX:
                    topic = ""
                self._topics.add(topic)
            before = self._traffic.get((topic, kind), Traffic())
            self._traffic[topic, kind] = Traffic(
                before.requests + more.requests, before.size_bytes + more.size_bytes
            )


class ObservedStore:
    """A store whose calls are recorded; `prefix` is the configured prefix of keys.

    The topics of the store of a `mount` are recorded as `<mount>/<topic>`.
    """

    def __init__(
        self,
        store: ObjectStore,
        activity: StoreActivity,
        prefix: str,
        *,
        calls_are_requests: bool,
        mount: str | None = None,
    ) -> None:
        self._store = store
        self._activity = activity
        self._prefix = prefix
        self._calls_are_requests = calls_are_requests
        self._mount = mount
        self._name_prefix = "" if mount is None else f"{mount}/"

    def put(self, key: str, content: Content, size: int | None = None) -> bool | None:
        """Put an object, as specified by ObjectStore."""
        topic = self._topic(key)
        with self._call(topic, RequestKind.PUT):
            if isinstance(content, (bytes, bytearray, memoryview)):
                is_confirmed = self._store.put(key, content, size)
                sent_bytes = len(content)
            else:
                counted = _CountedSource(content)
                is_confirmed = self._store.put(key, counted, size)
                sent_bytes = counted.size_bytes
        self._activity.add_bytes(topic, RequestKind.PUT, sent_bytes)
        return is_confirmed

    def get(self, key: str, start: int | None = None, end: int | None = None) -> ReadableStream:
        """Return a range of an object, as specified by ObjectStore."""
        topic = self._topic(key)
        with self._call(topic, RequestKind.GET):
            stream = self._store.get(key, start, end)
            return _ObservedStream(stream, self._activity, topic, is_own=self._mount is None)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects, as specified by ObjectStore."""
        listed = list(keys)
        with self._call(self._topic(listed[0] if listed else ""), RequestKind.DELETE):
            self._store.delete(listed)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """List objects, as specified by ObjectStore."""
        with self._call(self._name_prefix, RequestKind.LIST):
            yield from self._store.list(prefix, start_after)

    def size(self, key: str) -> int:
        """Return the size of an object, as specified by ObjectStore."""
        with self._call(self._topic(key), RequestKind.HEAD):
            return self._store.size(key)

    def close(self) -> None:
        """Close the store."""
        if self._mount is None:
            self._activity.end()
        self._store.close()

    def _call(self, topic: str, kind: RequestKind) -> AbstractContextManager[None]:
        return self._activity.call(
            topic, kind, is_request=self._calls_are_requests, is_own=self._mount is None
        )

    def _topic(self, key: str) -> str:
        name = parse_key(key, self._prefix)
        return self._name_prefix + ("" if name is None else name.partition.topic)


class _CountedSource:
    """A source that counts the bytes that were read from it."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.size_bytes = 0

    def read(self, size: int, /) -> bytes:
        """Return the next bytes, at most `size`; empty at the end."""
        data = self._source.read(size)
        self.size_bytes += len(data)
        return data


class _ObservedStream:
    """A stream that counts the bytes that were read, and records an outage if the store fails meanwhile."""

    def __init__(self, stream: ReadableStream, activity: StoreActivity, topic: str, *, is_own: bool) -> None:
        self._stream = stream
        self._activity = activity
        self._topic = topic
        self._is_own = is_own

    def read(self, size: int = -1, /) -> bytes:
        """Return at most `size` of the next bytes, all if `size` is negative; empty at the end."""
        with self._activity.call(self._topic, RequestKind.GET, is_request=False, is_own=self._is_own):
            data = self._stream.read(size)
        self._activity.add_bytes(self._topic, RequestKind.GET, len(data))
        return data

    def close(self) -> None:
        """Stop reading."""
        self._stream.close()
