"""The counters of each API: requests by version, errors by code, and the times of requests and their parts.

They are plain integers in slotted objects, because every request changes them.
`tidelog.broker.observability.metrics` reads them at each scrape.

The time of a request has these parts, under Kafka's names:

    request queue    waiting for a slot of queued.max.requests
    local            decoding, handling and encoding on this node; the rest of the total time
    remote           waiting for an event: followers, records, remote storage, other nodes, group members
    response queue   waiting for the responses to earlier requests of the connection
    response send    the time until the socket accepted the whole response, if it did not at once
    throttle         throttle times that clients were sent because of quotas

Total time ends when the response is available, before the last three.
"""

from __future__ import annotations

from collections import Counter

from tidelog.base.time_histogram import TimeHistogram


class RequestWaits:
    """The waits of one request; most requests never wait and have none."""

    __slots__ = ("queue_ns", "remote_began_ns")

    def __init__(self) -> None:
        self.queue_ns = 0
        self.remote_began_ns = 0
        """The time of the first wait for an event; 0 if there was none."""


class ApiMetrics:
    """The counters of one API."""

    __slots__ = (
        "errors",
        "local_ns",
        "name",
        "remote_ns",
        "request_queue_ns",
        "requests",
        "response_queue_ns",
        "response_send_ns",
        "throttle_ns",
        "times",
    )

    def __init__(self, name: str, versions: int) -> None:
        self.name = name
        self.requests = [0] * versions
        self.errors: Counter[int] = Counter()
        self.times = TimeHistogram()
        self.request_queue_ns = self.local_ns = self.remote_ns = 0
        self.response_queue_ns = self.response_send_ns = self.throttle_ns = 0

    def observe(self, started_ns: int, now_ns: int, waits: RequestWaits | None) -> None:
        """Count a response that is available now."""
        elapsed_ns = now_ns - started_ns
        self.times.observe(elapsed_ns)
        if waits is not None:
            self.request_queue_ns += waits.queue_ns
            elapsed_ns -= waits.queue_ns
            if waits.remote_began_ns:
                remote_ns = now_ns - waits.remote_began_ns
                self.remote_ns += remote_ns
                elapsed_ns -= remote_ns
        self.local_ns += elapsed_ns

    def add_response_queue_time(self, elapsed_ns: int) -> None:
        """Count the time that a response has waited for those before it."""
        self.response_queue_ns += elapsed_ns

    def add_response_send_time(self, elapsed_ns: int) -> None:
        """Count the time until the socket has accepted a response."""
        self.response_send_ns += elapsed_ns

    def add_throttle_time(self, throttle_time_ms: int) -> None:
        """Count the time for which a connection is muted because of a quota."""
        self.throttle_ns += throttle_time_ms * 1_000_000


class RequestMetrics:
    """The counters of all APIs, created when an API is first registered."""

    __slots__ = ("apis",)

    def __init__(self) -> None:
        self.apis: dict[str, ApiMetrics] = {}

    def of(self, name: str, highest_version: int) -> ApiMetrics:
        """Return the counters of the API `name`, which several listeners share."""
        metrics = self.apis.get(name)
        if metrics is None:
            metrics = self.apis[name] = ApiMetrics(name, highest_version + 1)
        return metrics
