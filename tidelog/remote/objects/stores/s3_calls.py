"""Calls to S3 that are retried within bounds.

Retried: failed connections, timeouts, invalid responses, HTTP 408, 429 and 5xx, and the error codes that S3
defines as temporary. Not retried: every other response of a server.

Bounds: no attempt takes longer than the attempt timeout; none begins after the call timeout, which also ends
the last attempt. Between two attempts there is an increasing pause with full jitter.
"""

from __future__ import annotations

import threading
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

from tidelog.base.backoff import ExponentialBackoff
from tidelog.remote.objects.stores.port import StorePorts, one_line
from tidelog.remote.objects.stores.s3_deadlines import Deadlines, Watch
from tidelog.remote.objects.stores.s3_settings import S3Settings

_Result = TypeVar("_Result")

_BACKOFF: Final = ExponentialBackoff(initial_ms=100, max_ms=5_000)
_TEMPORARY_STATUS: Final = frozenset({408, 429})
TEMPORARY_CODES: Final = frozenset(
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


OUTAGE_CODES: Final = frozenset(
    {
        "AccessDenied",
        "ExpiredToken",
        "InvalidAccessKeyId",
        "InvalidToken",
        "NoSuchBucket",
        "PermanentRedirect",
        "SignatureDoesNotMatch",
    }
)
"""The codes of responses that are the same for every object: wrong credentials, or a wrong bucket."""


class AttemptFailed(Exception):
    """An attempt whose response is invalid; a retry may succeed."""


_TRANSPORT: Final = (
    HTTPClientError,
    IncompleteReadError,
    ResponseStreamingError,
    FlexibleChecksumError,
    ResponseParserError,
    AttemptFailed,
    OSError,
    HTTPException,  # botocore does not wrap these two if the body of an error is truncated
    HTTPError,
)
FAILURES: Final = (*_TRANSPORT, BotoCoreError, ClientError)
"""All errors that an attempt can raise."""


class CallFailed(Exception):
    """A call that failed after its last attempt: the cause in one line, with the code and status of S3."""

    def __init__(self, cause: Exception, attempts: int, elapsed_s: float, note: str = "") -> None:
        self.code, self.status = _code_and_status(cause)
        text = f"{type(cause).__name__}: {cause}"
        if isinstance(cause, ClientError):
            message = cause.response.get("Error", {}).get("Message", "")
            text = f"{self.code} (HTTP {self.status}): {message}"
        retries = f" ({attempts} attempts in {elapsed_s:.1f} s)" if attempts > 1 else ""
        super().__init__(one_line(f"{text}{note}{retries}"))

    @property
    def is_outage(self) -> bool:
        """Whether calls for other objects would fail, too."""
        has_no_response = self.status == 0
        return (
            has_no_response
            or self.status >= 500
            or self.status in (401, 403, *_TEMPORARY_STATUS)
            or self.code in OUTAGE_CODES
            or self.code in TEMPORARY_CODES
        )


class S3Calls:
    """Runs calls. Thread-safe; `close` ends pauses and attempts in progress."""

    def __init__(self, settings: S3Settings, ports: StorePorts) -> None:
        self._call_timeout_s = settings.call_timeout_ms / 1000
        self._attempt_timeout_s = settings.attempt_timeout_ms / 1000
        self._attempts_max = settings.attempts_max
        self._ports = ports
        self._closed = threading.Event()
        self.deadlines = Deadlines(ports.clock)

    @property
    def call_timeout_s(self) -> float:
        """The maximum time of a call including its retries."""
        return self._call_timeout_s

    @property
    def attempt_timeout_s(self) -> float:
        """The maximum time of one attempt."""
        return self._attempt_timeout_s

    @property
    def attempts_max(self) -> int:
        """The maximum number of attempts of a call."""
        return self._attempts_max

    def now_s(self) -> float:
        """Return the monotonic time in seconds."""
        return self._ports.clock.monotonic_ms() / 1000

    def run(
        self,
        operation: Callable[[Watch], _Result],
        *,
        on_retry: Callable[[], None] | None = None,
        timeout_s: float | None = None,
    ) -> _Result:
        """Return the result of `operation`, which is retried after temporary errors.

        `on_retry` is called before each retry, because the outcome of the failed attempt is unknown.
        `timeout_s` replaces the call timeout. Errors: CallFailed.
        """
        started_s = self.now_s()
        deadline_s = started_s + (self._call_timeout_s if timeout_s is None else timeout_s)
        attempt = 0
        while True:
            attempt += 1
            allowed_s = min(self._attempt_timeout_s, deadline_s - self.now_s())
            watch: Watch | None = None
            try:
                with self.deadlines.watch(allowed_s) as watch:
                    result = operation(watch)
                if watch.expired:
                    # Headers look complete if they end where the connection was shut down.
                    raise AttemptFailed("the response was truncated")
                return result
            except FAILURES as error:
                now_s = self.now_s()
                pause_s = self._pause_s(attempt)
                is_last = attempt >= self._attempts_max or now_s + pause_s >= deadline_s
                if is_last or self._closed.is_set() or not is_temporary(error):
                    note = (
                        f" (timed out after {allowed_s:.1f} s)" if watch is not None and watch.expired else ""
                    )
                    raise CallFailed(error, attempt, now_s - started_s, note) from error
                if on_retry is not None:
                    on_retry()
                self._closed.wait(pause_s)

    def pause(self, attempt: int) -> None:
        """Wait before another attempt; return at once after `close`."""
        self._closed.wait(self._pause_s(attempt))

    def _pause_s(self, attempt: int) -> float:
        """Return the pause in seconds after an attempt; `attempt` counts from 1.

        It is random, from 0 to the backoff, so that callers of an overloaded store do not retry together.
        """
        return self._ports.randomness.uniform(0, _BACKOFF.base_delay_ms(attempt - 1) / 1000)

    def close(self) -> None:
        """End pauses and attempts in progress."""
        self._closed.set()
        self.deadlines.close()


def is_temporary(error: Exception) -> bool:
    """Return whether a retry may succeed after `error`."""
    if isinstance(error, ClientError):
        code, status = _code_and_status(error)
        return code in TEMPORARY_CODES or status in _TEMPORARY_STATUS or status >= 500
    return isinstance(error, _TRANSPORT)


def _code_and_status(error: Exception) -> tuple[str, int]:
    """Return the error code and the HTTP status of a response; empty and 0 without a response."""
    if not isinstance(error, ClientError):
        return "", 0
    code = str(error.response.get("Error", {}).get("Code", ""))
    return code, int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
