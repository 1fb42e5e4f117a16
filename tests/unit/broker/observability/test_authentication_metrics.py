"""The metrics of authentications, from handshakes over real sockets."""

from __future__ import annotations

import ssl

import pytest

from tests.support.loops.both_loops import on_both_loops
from tests.support.network.loopback_server import running_server
from tests.support.waiting import eventually
from tidelog.broker.observability.authentication_metrics import report_authentications
from tidelog.broker.observability.exposition import Exposition
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.security.certificate_authority import Authority
from tidelog.security.tls.contexts import client_context
from tidelog.security.tls.principal_mapping import PrincipalMapper
from tidelog.security.tls.server import TlsServer, load_server_identity
from tidelog.security.tls.settings import parse_tls_settings

AUTHORITY = Authority.create()
PREFIX = "kafka_server_socketservermetrics_"


def tls_server() -> TlsServer:
    own = AUTHORITY.issue("broker")
    texts = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": own.key_pem(),
        "ssl.keystore.certificate.chain": own.chain_pem(),
    }
    return TlsServer(load_server_identity(parse_tls_settings(texts)), PrincipalMapper("DEFAULT"))


def context_that_trusts(authority: Authority) -> ssl.SSLContext:
    texts = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority.pem()}
    return client_context(parse_tls_settings(texts))


def lines(metrics: BrokerMetrics) -> list[str]:
    return Exposition(metrics).text("")[0].decode().splitlines()


@on_both_loops
async def test_handshakes_are_reported_by_listener() -> None:
    metrics = BrokerMetrics()
    async with running_server(tls=tls_server()) as served:
        report_authentications(metrics, (served.server,))
        await (await served.connect(tls=context_that_trusts(AUTHORITY))).send_request(b"")
        with pytest.raises(ssl.SSLError):
            await served.connect(tls=context_that_trusts(Authority.create()))
        failed = PREFIX + 'failed_authentication_total{listener="PLAINTEXT"} 1.0'
        await eventually(lambda: failed in lines(metrics))
        metric_lines = lines(metrics)
        for name in ("successful_authentication", "successful_authentication_no_reauth"):
            assert f'{PREFIX}{name}_total{{listener="PLAINTEXT"}} 1.0' in metric_lines
        for name in (
            "successful_reauthentication_total",
            "failed_reauthentication_total",
            "expired_connections_killed_count_total",
            "reauthentication_latency_seconds_total",
            "reauthentication_latency_seconds_max",
        ):
            assert f'{PREFIX}{name}{{listener="PLAINTEXT"}} 0.0' in metric_lines


@on_both_loops
async def test_a_connection_without_authentication_is_not_counted() -> None:
    metrics = BrokerMetrics()
    async with running_server() as served:
        report_authentications(metrics, (served.server,))
        await (await served.connect()).send_request(b"")
        assert f'{PREFIX}successful_authentication_total{{listener="PLAINTEXT"}} 0.0' in lines(metrics)
