"""Ranged reads of an object in S3 that never return wrong bytes.

Each response must be the requested range of the object that was opened (its ETag). The rest of a body that
is truncated or too slow is requested again while attempts remain.

Bounds: the waiting time of a reader is at most the call timeout for every started 8 MiB of the range, plus
one call to open it; the time between reads does not count.
"""

from __future__ import annotations

import re
import socket
from contextlib import suppress
from typing import Any, Final, NamedTuple

from tidelog.remote.objects.stores.port import InvalidRange, failure, missing, one_line
from tidelog.remote.objects.stores.s3_calls import FAILURES, AttemptFailed, CallFailed, S3Calls
from tidelog.remote.objects.stores.s3_deadlines import Watch
from tidelog.remote.objects.stores.s3_object_requests import ObjectRequests, ObjectResponse
from tidelog.remote.objects.stores.streams import PIECE_BYTES_MAX, ExactStream
from tidelog.remote.ports.storage_manager import RemoteStorageError

_BYTES_PER_CALL: Final = 8 * 1024 * 1024
_CONTENT_RANGE: Final = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


class Place(NamedTuple):
    """The key of an object, and the name of its store for errors."""

    store: str
    key: str


class _Opened(NamedTuple):
    body: Any
    length: int
    etag: str
    socket: socket.socket | None


class S3Reads:
    """Opens ranges of objects. Thread-safe."""

    def __init__(self, requests: ObjectRequests, calls: S3Calls) -> None:
        self._requests = requests
        self.calls = calls

    def open(self, place: Place, start: int | None, end: int | None) -> S3Stream:
        """Return a stream of a checked range. Errors: those of the port."""
        return S3Stream(self, place, start or 0, end, self.request(place, start, end))

    def request(self, place: Place, start: int | None, end: int | None, etag: str | None = None) -> _Opened:
        """Return the response to one ranged GET. Errors: those of the port, also if `etag` does not match."""
        try:
            response = self.calls.run(lambda watch: self._request(watch, place, start, end))
        except CallFailed as failed:
            if failed.code == "NoSuchKey":
                raise missing(place.store, place.key) from failed
            if failed.status == 416:
                text = f"{place.store}: byte {start or 0} of {place.key!r} is beyond its end"
                raise InvalidRange(one_line(text)) from failed
            raise failure(
                place.store, "read", place.key, failed.args[0], is_outage=failed.is_outage
            ) from failed
        if etag is not None and response.etag != etag:
            response.body.close()
            raise failure(place.store, "read", place.key, "the object was replaced during the read")
        return response

    def _request(self, watch: Watch, place: Place, start: int | None, end: int | None) -> _Opened:
        is_range = bool(start) or end is not None
        requested = f"bytes={start or 0}-{'' if end is None else end}" if is_range else ""
        response = self._requests.get(place.key, requested)
        try:
            if response.length is None:
                raise AttemptFailed("the response has no content length")
            if is_range:
                _check_range_of_response(response, start or 0, end)
        except AttemptFailed:
            response.body.close()
            raise
        return _Opened(response.body, response.length, response.etag, watch.socket)


def _check_range_of_response(response: ObjectResponse, start: int, end: int | None) -> None:
    """Raise AttemptFailed unless the response is the requested range with its content length."""
    range_text = response.headers.get("content-range", "")
    content_range = _CONTENT_RANGE.fullmatch(range_text)
    if response.status != 206 or content_range is None:
        raise AttemptFailed(f"a range was requested, but the response is not one (HTTP {response.status})")
    first, last, total = int(content_range[1]), int(content_range[2]), content_range[3]
    complete = (
        last == end if end is not None and (total == "*" or end < int(total)) else last + 1 == int(total)
    )
    if first != start or not complete or last - first + 1 != response.length:
        requested = f"{start}-{'' if end is None else end}"
        raise AttemptFailed(f"bytes {requested} were requested, but the response has {range_text}")


class S3Stream(ExactStream):
    """A range of an object. One reader at a time."""

    piece_bytes_max = 4 * PIECE_BYTES_MAX
    """A chunk of the default size is read as one piece, because joining would copy it."""

    def __init__(self, reads: S3Reads, place: Place, start: int, end: int | None, response: _Opened) -> None:
        super().__init__(place.store, place.key, response.length)
        self._reads = reads
        self._place = place
        self._position = start
        self._end = end if end is not None else start + response.length - 1
        self._end = min(self._end, start + response.length - 1)
        self._opened: _Opened | None = response
        self._etag = response.etag
        self._attempt = 1
        calls = -(-max(1, response.length) // _BYTES_PER_CALL)
        self._time_left_s = reads.calls.call_timeout_s * calls
        self._closed = False

    def _next(self, size: int) -> bytes:
        while True:
            if self._closed:
                raise failure(self._store, "read", self._key, "the stream is closed")
            started_s = self._reads.calls.now_s()
            try:
                piece = self._read_body(size)
            except (
                *FAILURES,
                ValueError,
                AttributeError,
            ) as error:  # raised if the connection is shut down during the read
                self._time_left_s -= self._reads.calls.now_s() - started_s
                self._retry_after(error)
                continue
            self._time_left_s -= self._reads.calls.now_s() - started_s
            self._position += len(piece)
            if self._position > self._end:
                self._release()
            return piece

    def _read_body(self, size: int) -> bytes:
        calls = self._reads.calls
        if self._time_left_s <= 0:
            raise AttemptFailed("the body is too slow")
        if self._opened is None:
            self._opened = self._reads.request(self._place, self._position, self._end, self._etag)
        with calls.deadlines.watch(
            min(self._time_left_s, calls.attempt_timeout_s), self._opened.socket
        ) as watch:
            piece: bytes = self._opened.body.read(size)
        if not piece:
            reason = "the body is too slow" if watch.expired else "the body broke off"
            raise AttemptFailed(f"{reason} after {self._position} of {self._end + 1} bytes")
        return piece

    def _retry_after(self, error: Exception) -> None:
        """Release the failed body and pause. Errors: RemoteStorageError if no attempt or time remains."""
        if isinstance(error, RemoteStorageError):
            raise error
        self._release()
        if self._attempt >= self._reads.calls.attempts_max or self._time_left_s <= 0:
            cause = f"{error} ({self._attempt} attempts)"
            raise failure(self._store, "read", self._key, cause, is_outage=True) from error
        self._reads.calls.pause(self._attempt)
        self._attempt += 1

    def _release(self) -> None:
        response, self._opened = self._opened, None
        if response is not None:
            with suppress(Exception):
                response.body.close()

    def close(self) -> None:
        """Stop reading; a connection with unread bytes is not used again."""
        self._closed = True
        self._release()
