"""Attempts that end at their deadline, even if the server does not respond.

Socket timeouts limit only the time without data: a server that sends one byte per second could extend a
request without limit. Therefore each attempt is watched. When its time has expired, its connection is shut
down, which ends every send and receive at once. One thread watches all attempts.

The same connections verify the Content-Length of responses: a truncated listing without objects, or a
truncated deletion without errors, would look complete.

The connections of botocore register with the watch of the thread that uses them. They replace botocore's own
classes in `URLLib3Session._pool_classes_by_scheme`, the only internal part of botocore that is changed
(`s3_client`). A test with a server that sends single bytes verifies that it still works.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from botocore.awsrequest import (
    AWSHTTPConnection,
    AWSHTTPConnectionPool,
    AWSHTTPSConnection,
    AWSHTTPSConnectionPool,
)

from tidelog.base.clock import Clock


class Watch:
    """One attempt: the connection that it uses and its deadline."""

    def __init__(self, deadline_s: float) -> None:
        self.deadline_s = deadline_s
        self.expired = False
        self.connection: Any = None
        self.socket: socket.socket | None = None

    def expire(self) -> None:
        """Shut down the connection; the thread that uses it receives an error."""
        self.expired = True
        connection = self.socket or getattr(self.connection, "sock", None)
        if connection is not None:
            # The method of the plain socket: an SSL socket's must not be called while another thread reads.
            with contextlib.suppress(OSError):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)


class Deadlines:
    """Watches attempts in its own thread, which runs while there are attempts. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._watches: set[Watch] = set()
        self._thread: threading.Thread | None = None
        self._closed = False

    @contextmanager
    def watch(self, seconds: float, shared_socket: socket.socket | None = None) -> Iterator[Watch]:
        """Shut down the requests of this thread, or `shared_socket`, if the block takes too long."""
        watch = Watch(self._now_s() + seconds)
        watch.socket = shared_socket
        with self._changed:
            self._watches.add(watch)
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="s3-deadlines", daemon=True)
                self._thread.start()
            self._changed.notify()
        _current.watch = watch
        try:
            yield watch
        finally:
            _current.watch = None
            with self._changed:
                self._watches.discard(watch)

    def close(self) -> None:
        """End the thread, and shut down all watched connections."""
        with self._changed:
            self._closed = True
            for watch in self._watches:
                watch.expire()
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _now_s(self) -> float:
        return self._clock.monotonic_ms() / 1000

    def _run(self) -> None:
        with self._changed:
            while not self._closed:
                now_s = self._now_s()
                for watch in [watch for watch in self._watches if watch.deadline_s <= now_s]:
                    self._watches.discard(watch)
                    watch.expire()
                first_s = min((watch.deadline_s for watch in self._watches), default=None)
                self._changed.wait(None if first_s is None else max(0.0, first_s - now_s))


class _Current(threading.local):
    watch: Watch | None = None


_current = _Current()


class _WatchedConnection:
    """A mixin of a connection: registers the connection and its socket with the watch of its thread."""

    sock: Any

    def connect(self) -> None:
        watch = _current.watch
        if watch is not None:
            watch.connection = self
        super().connect()  # type: ignore[misc]
        if watch is not None and watch.expired:
            watch.expire()

    def request(self, *args: Any, **kwargs: Any) -> Any:
        watch = _current.watch
        if watch is not None:
            watch.connection = self
            watch.socket = self.sock
            if watch.expired:
                watch.expire()
        result = super().request(*args, **kwargs)  # type: ignore[misc]
        if watch is not None:
            watch.socket = self.sock or watch.socket
        return result


class _Connection(_WatchedConnection, AWSHTTPConnection):  # type: ignore[misc]
    pass


class _SecureConnection(_WatchedConnection, AWSHTTPSConnection):  # type: ignore[misc]
    pass


class _LengthCheckingPool:
    """A mixin of a pool that rejects responses shorter than their Content-Length; botocore does not."""

    def urlopen(self, *args: Any, **kwargs: Any) -> Any:
        return super().urlopen(*args, **{**kwargs, "enforce_content_length": True})  # type: ignore[misc]


class _Pool(_LengthCheckingPool, AWSHTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(_LengthCheckingPool, AWSHTTPSConnectionPool):
    ConnectionCls = _SecureConnection


POOL_CLASSES = {"http": _Pool, "https": _SecurePool}
"""Connection pools of urllib3 by scheme."""
