"""Response times of a well-behaved client, and their summary in one phase of an attack (pure).

A response time has two values: the measured one (gross), and the one without the time in which the broker's
event loop or the client was ready to run but had no CPU (net). The net time is used for the goals, because
other processes share the machine.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

NANOSECONDS_PER_MS: Final = 1_000_000


class Kind(IntEnum):
    """The actions of the well-behaved client."""

    PROBE = 0
    """ApiVersions on a connection that does nothing else."""
    WORK = 1
    """Produce, Fetch and Metadata, one after the other."""
    CONNECT = 2
    """A new connection, and ApiVersions on it."""


INTERVAL_NS: Final = {
    Kind.PROBE: 4 * NANOSECONDS_PER_MS,
    Kind.WORK: 5 * NANOSECONDS_PER_MS,
    Kind.CONNECT: 100 * NANOSECONDS_PER_MS,
}

PENDING_NS_MIN: Final = 200 * NANOSECONDS_PER_MS
"""A request counts as pending from this age on; the response to a newer one may be in flight."""


class Sample(NamedTuple):
    """One request of the well-behaved client."""

    kind: int
    is_error: bool
    sent_ns: int
    """On the system's monotonic clock, which all processes share."""
    elapsed_ns: int
    without_cpu_ns: int
    """The time in which the broker's event loop or the client waited for a CPU meanwhile."""

    @property
    def net_ns(self) -> int:
        """Return the response time without waiting for a CPU."""
        return max(self.elapsed_ns - self.without_cpu_ns, 0)

    @property
    def ended_ns(self) -> int:
        """Return the time of the response."""
        return self.sent_ns + self.elapsed_ns


SAMPLE: Final = struct.Struct("<BBqqq")
"""The format in which the client's process writes a `Sample` to its output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """The measurements of one phase; times are net unless their names state otherwise."""

    requests: int
    errors: int
    blocked_ms: float
    """The longest response time of the probe."""
    gap_ms: float
    """The same, with the time without a CPU."""
    p50_ms: float
    p99_ms: float
    p99_gross_ms: float
    connect_max_ms: float


def phase_of(samples: Iterable[Sample]) -> Phase:
    """Summarize the samples of one phase."""
    by_kind: dict[int, list[Sample]] = {kind: [] for kind in Kind}
    for sample in samples:
        by_kind[sample.kind].append(sample)
    probes, work = by_kind[Kind.PROBE], by_kind[Kind.WORK]
    net = correct_for_coordinated_omission([sample.net_ns for sample in work], INTERVAL_NS[Kind.WORK])
    gross = correct_for_coordinated_omission([sample.elapsed_ns for sample in work], INTERVAL_NS[Kind.WORK])
    return Phase(
        requests=sum(map(len, by_kind.values())),
        errors=sum(sample.is_error for each in by_kind.values() for sample in each),
        blocked_ms=_longest_ms(sample.net_ns for sample in probes),
        gap_ms=_longest_ms(sample.elapsed_ns for sample in probes),
        p50_ms=percentile(net, 0.5) / NANOSECONDS_PER_MS,
        p99_ms=percentile(net, 0.99) / NANOSECONDS_PER_MS,
        p99_gross_ms=percentile(gross, 0.99) / NANOSECONDS_PER_MS,
        connect_max_ms=_longest_ms(sample.net_ns for sample in by_kind[Kind.CONNECT]),
    )


def pending_requests(latest: Mapping[Kind, Sample], now_ns: int) -> list[Sample]:
    """Return the requests without a response, as if it had arrived at `now_ns`."""
    samples = []
    for kind in Kind:
        if kind in latest:
            # The next request is sent after the interval at the latest.
            elapsed_ns = now_ns - latest[kind].ended_ns - 2 * INTERVAL_NS[kind]
            if elapsed_ns > PENDING_NS_MIN:
                samples.append(Sample(kind, False, now_ns - elapsed_ns, elapsed_ns, 0))
    return samples


def correct_for_coordinated_omission(latencies_ns: Iterable[int], interval_ns: int) -> list[int]:
    """Add the requests that a client without a limit of requests in flight would have sent meanwhile.

    The client sends its next request after the response. Without this correction one response after ten
    seconds would count as one request, although two thousand would have waited.
    """
    result = []
    for latency in latencies_ns:
        result.append(latency)
        result.extend(range(latency - interval_ns, 0, -interval_ns))
    return result


def percentile(values: Sequence[int], share: float) -> float:
    """Return the value below which `share` of the values are; 0 without values."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return float(ordered[min(int(share * len(ordered)), len(ordered) - 1)])


def _longest_ms(values_ns: Iterable[int]) -> float:
    return max(values_ns, default=0) / NANOSECONDS_PER_MS
