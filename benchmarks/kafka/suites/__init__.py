"""The suites by name, in the order of a run: suites that use the same brokers are consecutive."""

from __future__ import annotations

from typing import Final

from benchmarks.kafka.case import Suite
from benchmarks.kafka.suites.compaction import COMPACTION
from benchmarks.kafka.suites.connections import CONNECTIONS
from benchmarks.kafka.suites.consume import CONSUME
from benchmarks.kafka.suites.groups import GROUPS
from benchmarks.kafka.suites.latency import LATENCY
from benchmarks.kafka.suites.memory import MEMORY
from benchmarks.kafka.suites.partitions import PARTITIONS
from benchmarks.kafka.suites.produce import PRODUCE
from benchmarks.kafka.suites.replicated import REPLICATED
from benchmarks.kafka.suites.share import SHARE
from benchmarks.kafka.suites.start_up import START_UP
from benchmarks.kafka.suites.tiering import TIERING
from benchmarks.kafka.suites.tls import TLS
from benchmarks.kafka.suites.transactions import TRANSACTIONS

SUITES: Final = {
    suite.name: suite
    for suite in (
        START_UP,
        MEMORY,
        PRODUCE,
        CONSUME,
        CONNECTIONS,
        LATENCY,
        PARTITIONS,
        TRANSACTIONS,
        GROUPS,
        SHARE,
        TLS,
        REPLICATED,
        COMPACTION,
        TIERING,
    )
}

__all__ = ["SUITES", "Suite"]
