"""A listener with SASL_SSL: librdkafka and our own clients authenticate over TLS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from tests.support.loops.loop_thread import LOOP
from tidelog.clients.producer.producer import Producer
from tidelog.protocol.errors import KafkaError
from tidelog.security.certificate_authority import Authority
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop

AUTHORITY = Authority.create()
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Run a listener with SASL_SSL and return its address."""
    identity = AUTHORITY.issue("broker")
    config = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SECURE://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": identity.key_pem(),
        "ssl.keystore.certificate.chain": identity.chain_pem(),
        "listener.name.secure.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secure.plain.sasl.jaas.config": f'{MODULE} user_alice="right";',
    }
    with EmbeddedCluster(config=config) as cluster:
        yield f"127.0.0.1:{cluster.run(lambda node: node.bound_port('SECURE'))}"


@pytest.mark.parametrize("password, is_accepted", [("right", True), ("wrong", False)])
def test_librdkafka_authenticates_over_tls(
    address: str, tmp_path: Path, password: str, is_accepted: bool
) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": address,
            "security.protocol": "sasl_ssl",
            "ssl.ca.location": str(AUTHORITY.write(tmp_path / "ca.pem")),
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": password,
            "message.timeout.ms": 15_000 if is_accepted else 2_000,
            "log_level": 0,
        }
    )
    accepted: list[bool] = []
    producer.produce("events", b"value", callback=lambda error, _: accepted.append(error is None))
    assert producer.flush(20) == 0
    assert accepted == [is_accepted]


@pytest.mark.parametrize("password, is_accepted", [("right", True), ("wrong", False)])
def test_our_clients_authenticate_over_tls(address: str, password: str, is_accepted: bool) -> None:
    async def write() -> None:
        async with Producer(
            address,
            security_protocol="SASL_SSL",
            ssl_truststore_type="PEM",
            ssl_truststore_certificates=AUTHORITY.pem(),
            sasl_mechanism="PLAIN",
            sasl_jaas_config=f'{MODULE} username="alice" password="{password}";',
        ) as producer:
            await producer.send_and_wait("events", b"value")

    if is_accepted:
        LOOP.run(write())
        return
    with pytest.raises(KafkaError, match=r"(?i)authentication failed|invalid username or password"):
        LOOP.run(write())
