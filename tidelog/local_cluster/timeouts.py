"""Short timeouts for clusters that are broken on purpose: tests, the failover run, benchmarks.

Kafka's defaults are for data centres: a node counts as gone after nine seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

QUICK_TIMEOUTS: Final[Mapping[str, str]] = {
    "broker.heartbeat.interval.ms": "100",
    "broker.session.timeout.ms": "1000",
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.election.backoff.max.ms": "200",
    "controller.quorum.fetch.timeout.ms": "800",
    "controller.quorum.request.timeout.ms": "800",
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.wait.max.ms": "100",
    "replica.fetch.backoff.ms": "50",
    "replica.socket.timeout.ms": "2000",
}
"""Kafka's keys, in milliseconds: who waits for a failover waits for about a second."""
