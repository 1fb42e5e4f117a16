"""The metrics endpoint with TLS and a token."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.loops.both_loops import on_both_loops
from tidelog.base.config_definition import ConfigError
from tidelog.broker.observability import metrics_endpoint
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.broker.observability.metrics_access import MetricsAccess, MetricsGuard
from tidelog.broker.observability.metrics_endpoint import MetricsEndpoint
from tidelog.security.certificate_authority import Authority
from tidelog.security.tls.settings import parse_tls_settings

AUTHORITY = Authority.create()
TOKEN = "canary-token-of-metrics"


@asynccontextmanager
async def run_endpoint(access: MetricsAccess, reason: str | None = None) -> AsyncIterator[MetricsEndpoint]:
    endpoint = MetricsEndpoint(BrokerMetrics(), lambda: reason, access)
    await endpoint.start("127.0.0.1", 0)
    try:
        yield endpoint
    finally:
        await endpoint.close()


async def get(
    endpoint: MetricsEndpoint, path: str, *fields: str, context: ssl.SSLContext | None = None
) -> bytes:
    """Return all bytes that the server sends until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port, ssl=context)
    writer.write("\r\n".join([f"GET {path} HTTP/1.1", *fields, "", ""]).encode())
    try:
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


def token_file(folder: Path, token: str = TOKEN) -> str:
    path = folder / "token"
    path.write_text(f"{token}\n")
    return str(path)


@on_both_loops
async def test_metrics_need_the_token_and_health_does_not(tmp_path: Path) -> None:
    async with run_endpoint(MetricsAccess(token_file=token_file(tmp_path)), "disk is full") as endpoint:
        for fields in ([], ["Authorization: Bearer wrong"], [f"Authorization: Basic {TOKEN}"]):
            refused = await get(endpoint, "/metrics", *fields)
            assert refused.startswith(b"HTTP/1.1 401 ") and b"WWW-Authenticate: Bearer" in refused
            assert TOKEN.encode() not in refused and b"kafka_" not in refused
        assert (await get(endpoint, "/metrics", f"authorization: bearer  {TOKEN}")).startswith(
            b"HTTP/1.1 200 "
        )
        health = await get(endpoint, "/healthz")
        assert health.startswith(b"HTTP/1.1 503 ") and b"disk" not in health
        assert b"disk is full" in await get(endpoint, "/healthz", f"Authorization: Bearer {TOKEN}")


@on_both_loops
async def test_a_new_token_is_used_without_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_endpoint, "REFRESH_INTERVAL_S", 0.01)
    async with run_endpoint(MetricsAccess(token_file=token_file(tmp_path))) as endpoint:
        token_file(tmp_path, "another-long-token")

        response = b""
        while not response.startswith(b"HTTP/1.1 200 "):
            response = await get(endpoint, "/metrics", "Authorization: Bearer another-long-token")
        former = await get(endpoint, "/metrics", f"Authorization: Bearer {TOKEN}")
        assert former.startswith(b"HTTP/1.1 401 ")


@on_both_loops
async def test_metrics_are_served_with_tls_and_a_new_certificate_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_endpoint, "REFRESH_INTERVAL_S", 0.01)
    store = AUTHORITY.issue("node").write_pem(tmp_path / "node.pem")
    tls = parse_tls_settings({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(store)})
    context = ssl.create_default_context(cadata=AUTHORITY.pem())
    async with run_endpoint(MetricsAccess(tls)) as endpoint:
        assert (await get(endpoint, "/metrics", context=context)).startswith(b"HTTP/1.1 200 ")
        assert await get(endpoint, "/metrics") == b""
        Authority.create("Another CA").issue("node").write_pem(tmp_path / "node.pem")
        with pytest.raises(ssl.SSLCertVerificationError):
            while True:
                await get(endpoint, "/metrics", context=context)


@on_both_loops
async def test_incomplete_handshakes_are_bounded_and_do_not_prevent_a_scrape(tmp_path: Path) -> None:
    store = AUTHORITY.issue("node").write_pem(tmp_path / "node.pem")
    tls = parse_tls_settings({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(store)})
    context = ssl.create_default_context(cadata=AUTHORITY.pem())
    async with run_endpoint(MetricsAccess(tls)) as endpoint:
        before = len(asyncio.all_tasks())
        flood = [
            await asyncio.open_connection("127.0.0.1", endpoint.port)
            for _ in range(5 * metrics_endpoint.CONNECTIONS_MAX)
        ]
        assert (await get(endpoint, "/healthz", context=context)).endswith(b"ok\n")
        assert len(asyncio.all_tasks()) <= before + metrics_endpoint.CONNECTIONS_MAX
        assert await flood[0][0].read() == b""
        for _, writer in flood:
            writer.transport.abort()


@pytest.mark.parametrize("token", ["", "short", "two words that are long", "x" * 5000])
def test_a_token_that_is_not_one_long_word_is_refused_without_showing_it(tmp_path: Path, token: str) -> None:
    guard = MetricsGuard(MetricsAccess(token_file=token_file(tmp_path, token)))
    with pytest.raises(ConfigError, match="one word of 16 to 4096 bytes") as refused:
        guard.load()
    assert not token or token not in str(refused.value)


def test_a_pipe_is_refused_as_token_file_instead_of_waiting_for_its_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    guard = MetricsGuard(MetricsAccess(token_file=str(tmp_path / "pipe")))
    with pytest.raises(ConfigError, match="no regular file"):
        guard.load()


def test_the_longest_token_may_end_with_a_line_break(tmp_path: Path) -> None:
    guard = MetricsGuard(MetricsAccess(token_file=token_file(tmp_path, "x" * 4096 + "\r")))
    guard.load()
    assert guard.is_allowed("Bearer " + "x" * 4096)


def test_a_file_that_cannot_be_read_any_more_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    guard = MetricsGuard(MetricsAccess(token_file=token_file(tmp_path)))
    guard.load()
    (tmp_path / "token").unlink()
    with caplog.at_level(logging.WARNING):
        guard.refresh()
        guard.refresh()
    assert len(caplog.records) == 1 and TOKEN not in caplog.text
    assert guard.is_allowed(f"Bearer {TOKEN}") and not guard.is_allowed("")
