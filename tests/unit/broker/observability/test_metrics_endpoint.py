"""The HTTP server for metrics and health, and its limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support.loops.both_loops import on_both_loops
from tidelog.broker.observability import metrics_endpoint
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.broker.observability.metrics_endpoint import CONNECTIONS_MAX, REQUEST_BYTES, MetricsEndpoint


@asynccontextmanager
async def run_endpoint(reason: str | None = None) -> AsyncIterator[MetricsEndpoint]:
    endpoint = MetricsEndpoint(BrokerMetrics(), lambda: reason)
    await endpoint.start("127.0.0.1", 0)
    try:
        yield endpoint
    finally:
        await endpoint.close()


async def get(endpoint: MetricsEndpoint, request: bytes) -> bytes:
    """Return all bytes that the server sends until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
    writer.write(request)
    try:
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


@on_both_loops
async def test_metrics_are_served_as_text() -> None:
    async with run_endpoint() as endpoint:
        response = await get(endpoint, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        head, _, body = response.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert f"Content-Length: {len(body)}".encode() in head
        assert b"# TYPE kafka_network_requestmetrics_requests_total counter" in body


@on_both_loops
async def test_health_reports_whether_the_broker_is_ready() -> None:
    async with run_endpoint() as endpoint:
        assert await get(endpoint, b"GET /healthz HTTP/1.0\r\n\r\n") == (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 3\r\n"
            b"Connection: close\r\n\r\nok\n"
        )
    async with run_endpoint("log directory is offline") as endpoint:
        response = await get(endpoint, b"GET /healthz HTTP/1.1\r\n\r\n")
        assert response.startswith(b"HTTP/1.1 503 ")
        assert response.endswith(b"log directory is offline\n")


@on_both_loops
async def test_other_paths_and_methods_are_refused_and_head_has_no_body() -> None:
    async with run_endpoint() as endpoint:
        assert (await get(endpoint, b"GET / HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 404 ")
        assert (await get(endpoint, b"nonsense\r\n\r\n")).startswith(b"HTTP/1.1 404 ")
        assert (await get(endpoint, b"POST /metrics HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 405 ")
        head = await get(endpoint, b"HEAD /metrics?x=1 HTTP/1.1\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        assert head.endswith(b"\r\n\r\n")


@on_both_loops
async def test_a_request_head_that_is_too_long_or_incomplete_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics_endpoint, "REQUEST_S", 0.05)
    async with run_endpoint() as endpoint:
        assert await get(endpoint, b"GET /" + b"a" * 3 * REQUEST_BYTES) == b""
        assert await get(endpoint, b"GET /metrics HTTP/1.1\r\n") == b""
        assert (await get(endpoint, b"GET /healthz HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200 ")


async def connections(
    endpoint: MetricsEndpoint, count: int
) -> list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    return [await asyncio.open_connection("127.0.0.1", endpoint.port) for _ in range(count)]


@on_both_loops
async def test_idle_connections_do_not_block_metrics_and_health() -> None:
    async with run_endpoint() as endpoint:
        idle = await connections(endpoint, CONNECTIONS_MAX)
        for _ in range(3):
            assert (await get(endpoint, b"GET /healthz HTTP/1.1\r\n\r\n")).endswith(b"ok\n")
        assert (await get(endpoint, b"GET /metrics HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        for _, writer in idle:
            writer.transport.abort()


@on_both_loops
async def test_the_longest_waiting_connection_is_closed_for_a_new_one() -> None:
    async with run_endpoint() as endpoint:
        idle = await connections(endpoint, CONNECTIONS_MAX)
        response = await get(endpoint, b"GET /healthz HTTP/1.1\r\n\r\n")
        assert response.endswith(b"ok\n")
        assert await idle[0][0].read() == b""
        for reader, writer in idle[1:]:
            writer.write(b"GET /healthz HTTP/1.1\r\n\r\n")
            assert (await reader.read()).endswith(b"ok\n")
            writer.close()


@on_both_loops
async def test_connections_that_do_not_read_are_closed_for_new_ones() -> None:
    metrics = BrokerMetrics()
    many: dict[tuple[str, ...], float] = {(str(number),): float(number) for number in range(20_000)}
    metrics.gauge("many", "More than the socket buffers hold.", lambda: many, ("partition",))
    endpoint = MetricsEndpoint(metrics)
    await endpoint.start("127.0.0.1", 0)
    try:
        deaf = await connections(endpoint, CONNECTIONS_MAX)
        for reader, writer in deaf:
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert (await get(endpoint, b"GET /healthz HTTP/1.1\r\n\r\n")).endswith(b"ok\n")
        for _, writer in deaf:
            writer.transport.abort()
    finally:
        await endpoint.close()


@on_both_loops
async def test_the_number_of_connection_tasks_is_bounded() -> None:
    async with run_endpoint() as endpoint:
        before = len(asyncio.all_tasks())
        flood = await connections(endpoint, 5 * CONNECTIONS_MAX)
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) <= before + CONNECTIONS_MAX + 1
        for _, writer in flood:
            writer.transport.abort()


@on_both_loops
async def test_a_large_scrape_yields_to_the_broker() -> None:
    metrics = BrokerMetrics()
    turns = 0
    turns_at_reading: list[int] = []

    def note_call() -> float:
        turns_at_reading.append(turns)
        return 0

    many: dict[tuple[str, ...], float] = {(str(number),): float(number) for number in range(20_000)}
    metrics.gauge("before", "Read before the many.", note_call)
    metrics.gauge("many", "Of every partition.", lambda: many, ("partition",))
    metrics.gauge("after", "Read behind them.", note_call)
    endpoint = MetricsEndpoint(metrics)
    await endpoint.start("127.0.0.1", 0)
    try:
        scrape = asyncio.create_task(get(endpoint, b"GET /metrics HTTP/1.1\r\n\r\n"))
        while not scrape.done():
            turns += 1
            await asyncio.sleep(0)
        response = await scrape
        assert b"\nafter 0.0\n" in response
        assert response.count(b"# TYPE many gauge\n") == 1
        assert response.count(b"\nmany{") == 20_000
        before, after = turns_at_reading
        assert after - before >= 40
    finally:
        await endpoint.close()


@on_both_loops
@pytest.mark.parametrize("version", [b"abc", b"1..0", b"x; escaping="])
async def test_a_client_that_accepts_an_invalid_version_gets_plain_text(
    version: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with run_endpoint() as endpoint:
        accept = b"Accept: application/openmetrics-text; version=" + version
        response = await get(endpoint, b"GET /metrics HTTP/1.1\r\n" + accept + b"\r\n\r\n")
    assert response.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4")
    assert not caplog.records
