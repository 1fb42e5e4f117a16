"""Attempts that end on time, whatever the server does.

Timeouts of sockets bound only a silence: a server that sends a byte every second keeps a request for ever.
So each attempt is watched, and when its time is over its connection is shut down, which ends every send and
receive at once. One thread watches all attempts.

The same connections hold answers to their Content-Length: cut short, a listing without objects or a deletion
without errors would look whole.

The connections of botocore report themselves to the watch of the thread that uses them. They are set in
place of botocore's own through `URLLib3Session._pool_classes_by_scheme`, the one place of botocore's inside
that is touched (`s3_client`); a test of a server that drips proves that it still works.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from botocore.awsrequest import (
    AWSHTTPConnection,
    AWSHTTPConnectionPool,
    AWSHTTPSConnection,
    AWSHTTPSConnectionPool,
)


class Watch:
    """One attempt: the connection it uses and when it must be over."""

    def __init__(self, deadline_s: float) -> None:
        self.deadline_s = deadline_s
        self.expired = False
        self.connection: Any = None
        self.socket: socket.socket | None = None

    def expire(self) -> None:
        """Shut the connection down; its user sees it end."""
        self.expired = True
        used = self.socket or getattr(self.connection, "sock", None)
        if used is not None:
            # Of the plain socket: that of an SSL socket must not be called while another thread reads.
            with contextlib.suppress(OSError):
                socket.socket.shutdown(used, socket.SHUT_RDWR)


class Deadlines:
    """Watches attempts from a thread of its own, which runs while there is something to watch or soon was.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._watches: set[Watch] = set()
        self._thread: threading.Thread | None = None
        self._closed = False

    @contextmanager
    def watch(self, seconds: float, used: socket.socket | None = None) -> Iterator[Watch]:
        """Within the block, requests of this thread, or `used`, are shut down after `seconds`."""
        watch = Watch(time.monotonic() + seconds)
        watch.socket = used
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
        """End the thread and what it watches."""
        with self._changed:
            self._closed = True
            for watch in self._watches:
                watch.expire()
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        with self._changed:
            while not self._closed:
                now_s = time.monotonic()
                for watch in [watch for watch in self._watches if watch.deadline_s <= now_s]:
                    self._watches.discard(watch)
                    watch.expire()
                first_s = min((watch.deadline_s for watch in self._watches), default=None)
                self._changed.wait(None if first_s is None else max(0.0, first_s - now_s))


class _Current(threading.local):
    watch: Watch | None = None


_current = _Current()


class _Reporting:
    """Mixed into a connection: tells the watch of its thread that it is used, and by which socket."""

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
        answer = super().request(*args, **kwargs)  # type: ignore[misc]
        if watch is not None:
            watch.socket = self.sock or watch.socket
        return answer


class _Connection(_Reporting, AWSHTTPConnection):  # type: ignore[misc]
    pass


class _SecureConnection(_Reporting, AWSHTTPSConnection):  # type: ignore[misc]
    pass


class _Counting:
    """Mixed into a pool: an answer shorter than its Content-Length is an error; botocore asks for none."""

    def urlopen(self, *args: Any, **kwargs: Any) -> Any:
        return super().urlopen(*args, **{**kwargs, "enforce_content_length": True})  # type: ignore[misc]


class _Pool(_Counting, AWSHTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(_Counting, AWSHTTPSConnectionPool):
    ConnectionCls = _SecureConnection


POOL_CLASSES = {"http": _Pool, "https": _SecurePool}
"""Connection pools of urllib3 by scheme."""
