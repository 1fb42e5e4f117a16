"""The queue of metrics for a destination: order, repetition, bounds."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random
from uuid import UUID

import pytest

from tests.support.messages.otlp_metrics import gauge, metrics_data
from tests.support.waiting import eventually
from tidelog.base.backoff import ExponentialBackoff
from tidelog.base.clock import SystemClock
from tidelog.broker.telemetry import forwarding as module
from tidelog.broker.telemetry.forwarding import Forwarding, RejectedMetrics
from tidelog.broker.telemetry.pushed_metrics import PushedMetrics, decode_metrics
from tidelog.protocol.steps import run_steps


class ScriptedDestination:
    """Raises the errors of `failures` first, then keeps the batches."""

    name = "collector"

    def __init__(self, *failures: Exception) -> None:
        self._failures = list(failures)
        self.batches: list[list[UUID]] = []

    def write(self, batch: Sequence[PushedMetrics]) -> None:
        if self._failures:
            raise self._failures.pop(0)
        self.batches.append([metrics.client_instance_id for metrics in batch])

    @property
    def written(self) -> list[int]:
        """The numbers of all clients whose metrics were written."""
        return [each.int for batch in self.batches for each in batch]


@asynccontextmanager
async def forwarding_to(
    destination: ScriptedDestination, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Forwarding]:
    monkeypatch.setattr(module, "BACKOFF", ExponentialBackoff(initial_ms=1, max_ms=2))
    forwarding = Forwarding(destination, SystemClock(), Random(1))
    forwarding.start()
    try:
        yield forwarding
    finally:
        await forwarding.close()


def push(forwarding: Forwarding, number: int, value_count: int = 1) -> None:
    metric = gauge("a", number)
    for _ in range(value_count - 1):
        metric.gauge.data_points.add()
    content = metrics_data(metric).SerializeToString()
    run_steps(forwarding.receive(run_steps(decode_metrics(UUID(int=number), {}, 1_000, content))))


async def test_metrics_are_written_once_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    destination = ScriptedDestination()
    async with forwarding_to(destination, monkeypatch) as forwarding:
        for number in range(20):
            push(forwarding, number)
        await eventually(lambda: destination.written == list(range(20)), "all metrics")
        push(forwarding, 20)
        await eventually(lambda: destination.written == list(range(21)), "the last metrics")


async def test_a_batch_is_repeated_until_the_collector_takes_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    destination = ScriptedDestination(OSError("refused"), OSError("refused"))
    with caplog.at_level(logging.INFO):
        async with forwarding_to(destination, monkeypatch) as forwarding:
            push(forwarding, 1)
            await eventually(lambda: destination.written == [1], "the metrics")
    assert "Forwarding metrics of clients to collector fails: refused" in caplog.text
    assert "works again" in caplog.text


async def test_a_rejected_batch_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    destination = ScriptedDestination(RejectedMetrics("HTTP Error 400"))
    async with forwarding_to(destination, monkeypatch) as forwarding:
        push(forwarding, 1)
        await eventually(lambda: forwarding.dropped_count == 1, "the dropped metrics")
        push(forwarding, 2)
        await eventually(lambda: destination.written == [2], "the next metrics")


async def test_metrics_above_the_bound_of_the_queue_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUEUE_BYTES_MAX", 20_000)
    forwarding = Forwarding(ScriptedDestination(), SystemClock(), Random(1))
    for number in range(50):
        push(forwarding, number)
    assert 30 < forwarding.dropped_count < 50


async def test_small_pushes_of_many_elements_fill_the_queue_by_their_memory() -> None:
    """A push of 200 KB with 99,000 values takes 7 to 13 MB of memory when it is decoded."""
    forwarding = Forwarding(ScriptedDestination(), SystemClock(), Random(1))
    for number in range(10):
        push(forwarding, number, value_count=99_000)
    assert forwarding.dropped_count == 7
