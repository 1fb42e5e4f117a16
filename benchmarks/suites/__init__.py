"""The benchmarks, in suites that can be run separately. Targets: docs/performance.md."""

from __future__ import annotations

from typing import Final

from benchmarks.suites.arrow import arrow
from benchmarks.suites.authorization import authorization
from benchmarks.suites.clients import clients
from benchmarks.suites.compaction import compaction
from benchmarks.suites.consume import consume
from benchmarks.suites.controller import controller
from benchmarks.suites.effort import Suite
from benchmarks.suites.fetch import fetch
from benchmarks.suites.latency import latency
from benchmarks.suites.produce import produce
from benchmarks.suites.replication import replication
from benchmarks.suites.requests import requests
from benchmarks.suites.spark_queries import spark_queries
from benchmarks.suites.start_and_memory import start_and_memory
from benchmarks.suites.tier_join import tier_join
from benchmarks.suites.tier_metadata import tier_metadata
from benchmarks.suites.tier_outage import tier_outage
from benchmarks.suites.tier_read import tier_read
from benchmarks.suites.tier_upload import tier_upload
from benchmarks.suites.timers import timers
from benchmarks.suites.transactions import transactions

SUITES: Final[dict[str, Suite]] = {
    "start": start_and_memory,
    "latency": latency,
    "requests": requests,
    "fetch": fetch,
    "produce": produce,
    "consume": consume,
    "clients": clients,
    "timers": timers,
    "authorization": authorization,
    "compaction": compaction,
    "replication": replication,
    "controller": controller,
    "transactions": transactions,
    "tier-read": tier_read,
    "tier-upload": tier_upload,
    "tier-metadata": tier_metadata,
    "tier-join": tier_join,
    "tier-outage": tier_outage,
    "arrow": arrow,
    "spark": spark_queries,
}
