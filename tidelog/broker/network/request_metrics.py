"""The counters of each API: requests by version, errors by code, and a histogram of response times.

They are plain integers in slotted objects, because every request changes them.
`tidelog.broker.observability.exposition` renders them at each scrape.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import Final

# Upper bounds of the histogram's buckets; the last bucket has none.
LATENCY_BOUNDS_MS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 5_000, 30_000)
_BOUNDS_NS: Final = tuple(int(bound * 1_000_000) for bound in LATENCY_BOUNDS_MS)


class ApiMetrics:
    """The counters of one API."""

    __slots__ = ("errors", "latency_buckets", "latency_total_ns", "name", "requests")

    def __init__(self, name: str, versions: int) -> None:
        self.name = name
        self.requests = [0] * versions
        self.errors: Counter[int] = Counter()
        self.latency_buckets = [0] * (len(_BOUNDS_NS) + 1)
        self.latency_total_ns = 0

    def observe(self, elapsed_ns: int) -> None:
        """Count a response that was available `elapsed_ns` after its request."""
        self.latency_buckets[bisect_left(_BOUNDS_NS, elapsed_ns)] += 1
        self.latency_total_ns += elapsed_ns


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
