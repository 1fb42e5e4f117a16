"""One group with members that use the consumer protocol (KIP-848) and commit their positions.

Two members stay for the whole run. The third one leaves and joins again all the time, so that partitions move
between members while brokers are killed.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Final

from tests.harness.soak.group_members import CommitRecorder, run_librdkafka, run_own
from tests.harness.soak.history import History
from tidelog.local_cluster.client_settings import ClientSettings

GROUP: Final = "soak-consumer-group"
STAY_S: Final = 8.0


async def run_returning(clients: ClientSettings, topic: str, history: History, stop: threading.Event) -> None:
    """Run one member of librdkafka after the other until `stop` is set; each leaves after `STAY_S`."""
    while not stop.is_set():
        await _run_confluent("returning", clients, topic, history, stop, STAY_S)


async def run_confluent(clients: ClientSettings, topic: str, history: History, stop: threading.Event) -> None:
    """Run a member of librdkafka until `stop` is set."""
    await _run_confluent("confluent", clients, topic, history, stop, float("inf"))


async def run_tidelog(clients: ClientSettings, topic: str, history: History, stop: threading.Event) -> None:
    """Run a member of our own client until `stop` is set."""
    recorder = CommitRecorder(history, f"{GROUP}/own")
    await run_own(clients, topic, GROUP, {"group_protocol": "consumer"}, recorder, stop)


async def _run_confluent(
    name: str, clients: ClientSettings, topic: str, history: History, stop: threading.Event, stay_s: float
) -> None:
    recorder = CommitRecorder(history, f"{GROUP}/{name}")
    leave_at_s = time.monotonic() + stay_s

    def has_ended() -> bool:
        return stop.is_set() or time.monotonic() >= leave_at_s

    settings = {"group.protocol": "consumer"}
    await asyncio.to_thread(run_librdkafka, clients, topic, GROUP, settings, recorder, has_ended)


MEMBERS: Final = (run_confluent, run_tidelog, run_returning)
