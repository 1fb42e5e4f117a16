"""A call to S3, tried again while there is hope and time.

Tried again: no connection, a connection that broke, silence, an answer that makes no sense, HTTP 408, 429
and 5xx, and what S3 names as passing. Not tried again: everything else that a server answered.

Bounds: no attempt takes longer than the attempt timeout, none begins when the call timeout is over, and the
last one is cut there too; between two attempts there is a pause, longer each time, with full jitter.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from http.client import HTTPException
from typing import Final, TypeVar

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    FlexibleChecksumError,
    HTTPClientError,
    IncompleteReadError,
    ResponseStreamingError,
)
from botocore.parsers import ResponseParserError
from urllib3.exceptions import HTTPError

from tidelog.remote.objects.stores.port import one_line
from tidelog.remote.objects.stores.s3_deadlines import Deadlines, Watch
from tidelog.remote.objects.stores.s3_settings import S3Settings

_Answer = TypeVar("_Answer")

_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 5.0
_PASSING_STATUS: Final = frozenset({408, 429})
PASSING_CODES: Final = frozenset(
    {
        "InternalError",
        "RequestTimeout",
        "RequestTimeTooSkewed",
        "ServiceUnavailable",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequests",
    }
)


class NotDone(Exception):
    """An attempt that may do better when tried again: the server answered, but not as it should."""


_TRANSPORT: Final = (
    HTTPClientError,
    IncompleteReadError,
    ResponseStreamingError,
    FlexibleChecksumError,
    ResponseParserError,
    NotDone,
    OSError,
    HTTPException,  # these two come out as they are when the body of an error is cut
    HTTPError,
)
FAILURES: Final = (*_TRANSPORT, BotoCoreError, ClientError)
"""Everything by which an attempt fails."""


class CallFailed(Exception):
    """A call that was given up: the last cause, as one line, with what S3 said."""

    def __init__(self, cause: Exception, attempts: int, elapsed_s: float, note: str = "") -> None:
        self.code, self.status = _answered(cause)
        self.attempts = attempts
        text = f"{type(cause).__name__}: {cause}"
        if isinstance(cause, ClientError):
            said = cause.response.get("Error", {}).get("Message", "")
            text = f"{self.code} (HTTP {self.status}): {said}"
        tried = f" ({attempts} attempts in {elapsed_s:.1f} s)" if attempts > 1 else ""
        super().__init__(one_line(f"{text}{note}{tried}"))


class S3Calls:
    """Runs calls. Thread-safe; `close` ends pauses and attempts under way."""

    def __init__(self, settings: S3Settings) -> None:
        self._call_timeout_s = settings.call_timeout_ms / 1000
        self._attempt_timeout_s = settings.attempt_timeout_ms / 1000
        self._attempts_max = settings.attempts_max
        self._random = random.Random()
        self._closed = threading.Event()
        self.deadlines = Deadlines()

    @property
    def call_timeout_s(self) -> float:
        """The longest time of a call with its retries."""
        return self._call_timeout_s

    @property
    def attempt_timeout_s(self) -> float:
        """The longest time of one attempt."""
        return self._attempt_timeout_s

    @property
    def attempts_max(self) -> int:
        """How often a call is tried."""
        return self._attempts_max

    def run(
        self,
        operation: Callable[[Watch], _Answer],
        *,
        on_retry: Callable[[], None] | None = None,
        timeout_s: float | None = None,
    ) -> _Answer:
        """What `operation` answers; `on_retry` is told when an attempt of unknown outcome is repeated.

        Errors: CallFailed.
        """
        started_s = time.monotonic()
        deadline_s = started_s + (self._call_timeout_s if timeout_s is None else timeout_s)
        attempt = 0
        while True:
            attempt += 1
            allowed_s = min(self._attempt_timeout_s, deadline_s - time.monotonic())
            watch: Watch | None = None
            try:
                with self.deadlines.watch(allowed_s) as watch:
                    answer = operation(watch)
                if watch.expired:
                    # Headers that end where the connection was cut look complete.
                    raise NotDone("the answer was cut")
                return answer
            except FAILURES as error:
                now_s = time.monotonic()
                pause_s = self.pause_s(attempt)
                last = attempt >= self._attempts_max or now_s + pause_s >= deadline_s
                if last or self._closed.is_set() or not may_pass(error):
                    note = f" (cut after {allowed_s:.1f} s)" if watch is not None and watch.expired else ""
                    raise CallFailed(error, attempt, now_s - started_s, note) from error
                if on_retry is not None:
                    on_retry()
                self._closed.wait(pause_s)

    def pause(self, attempt: int) -> None:
        """Wait before another attempt; over at once when closed."""
        self._closed.wait(self.pause_s(attempt))

    def pause_s(self, attempt: int) -> float:
        """A pause after the attempt of that number, counted from 1."""
        return self._random.uniform(0, min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**attempt))

    def close(self) -> None:
        """End what is under way."""
        self._closed.set()
        self.deadlines.close()


def may_pass(error: Exception) -> bool:
    """Whether another attempt may succeed."""
    if isinstance(error, ClientError):
        code, status = _answered(error)
        return code in PASSING_CODES or status in _PASSING_STATUS or status >= 500
    return isinstance(error, _TRANSPORT)


def _answered(error: Exception) -> tuple[str, int]:
    """The code and the HTTP status of an answer; empty and 0 when there was none."""
    if not isinstance(error, ClientError):
        return "", 0
    code = str(error.response.get("Error", {}).get("Code", ""))
    return code, int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
