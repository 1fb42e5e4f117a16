"""Third-party clients and the openssl command on listeners with TLS, valid and invalid certificates."""

from __future__ import annotations

import asyncio
import datetime
import ssl
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest
from kafka.errors import KafkaError as KafkaPythonError

from tests.support.loops.loop_thread import LOOP
from tidelog.security.certificate_authority import Authority, Identity
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop

AUTHORITY = Authority.create()
OTHER_AUTHORITY = Authority.create("Another CA")
INTERMEDIATE = Authority.create("Intermediate CA", AUTHORITY)
HOUR = datetime.timedelta(hours=1)
LISTENERS = {
    "SSL": INTERMEDIATE.issue("broker"),
    "MUTUAL": AUTHORITY.issue("broker"),
    "EXPIRED": AUTHORITY.issue("broker", lifetime=-HOUR),
    "WRONGNAME": AUTHORITY.issue("broker", ("other.example",)),
    "UNTRUSTED": OTHER_AUTHORITY.issue("broker"),
}
"""The certificate of each listener; MUTUAL requires certificates of clients."""
DEADLINE_S = 60.0
REFUSED_AFTER_S = 4.0


class Refused(Exception):
    """The client could not exchange records with the broker."""


@dataclass(frozen=True)
class Files:
    """The settings of a client."""

    address: str
    authority: str
    own: str | None

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.authority)
        if self.own is not None:
            context.load_cert_chain(self.own)
        return context


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Run one broker with a listener for each certificate."""
    protocols = ",".join(f"{name}:SSL" for name in LISTENERS)
    config = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", *LISTENERS)),
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{protocols}",
        "ssl.keystore.type": "PEM",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": AUTHORITY.pem(),
        "listener.name.mutual.ssl.client.auth": "required",
    }
    for name, identity in LISTENERS.items():
        prefix = f"listener.name.{name.lower()}."
        config[prefix + "ssl.keystore.key"] = identity.key_pem()
        config[prefix + "ssl.keystore.certificate.chain"] = identity.chain_pem()
    with EmbeddedCluster(config=config) as running:
        yield running


@pytest.fixture
def files(cluster: EmbeddedCluster, tmp_path: Path) -> Callable[..., Files]:
    """Return the settings of a client for one listener."""

    def write(listener: str, identity: Identity | None = None, authority: Authority = AUTHORITY) -> Files:
        port = cluster.run(lambda node: node.bound_port(listener))
        own = None if identity is None else str(identity.write_pem(tmp_path / "client.pem"))
        return Files(f"127.0.0.1:{port}", str(authority.write(tmp_path / "ca.pem")), own)

    return write


def confluent(files: Files, topic: str) -> bytes:
    """Write and read one record with librdkafka."""
    config: dict[str, Any] = {
        "bootstrap.servers": files.address,
        "security.protocol": "ssl",
        "ssl.ca.location": files.authority,
        "log_level": 0,
    }
    if files.own is not None:
        config |= {"ssl.certificate.location": files.own, "ssl.key.location": files.own}
    producer = confluent_kafka.Producer({**config, "message.timeout.ms": int(REFUSED_AFTER_S * 1000)})
    failures: list[Any] = []
    producer.produce(topic, b"value", callback=lambda error, _: failures.append(error) if error else None)
    if producer.flush(DEADLINE_S) or failures:
        raise Refused(str(failures))
    consumer = confluent_kafka.Consumer({**config, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    message = consumer.poll(DEADLINE_S)
    consumer.close()
    assert message is not None and message.error() is None
    return bytes(message.value())


def with_aiokafka(files: Files, topic: str) -> bytes:
    """Write and read one record with aiokafka."""

    async def exchange() -> bytes:
        options: dict[str, Any] = {
            "bootstrap_servers": files.address,
            "security_protocol": "SSL",
            "ssl_context": files.context(),
            "request_timeout_ms": int(REFUSED_AFTER_S * 1000),
        }
        producer = aiokafka.AIOKafkaProducer(**options)
        try:
            await producer.start()
            await producer.send_and_wait(topic, b"value")
        except aiokafka.errors.KafkaError as error:
            raise Refused(repr(error)) from error
        finally:
            await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(topic, auto_offset_reset="earliest", **options)
        await consumer.start()
        try:
            async with asyncio.timeout(DEADLINE_S):
                return bytes((await consumer.getone()).value)
        finally:
            await consumer.stop()

    return LOOP.run(exchange())


def kafka_python(files: Files, topic: str) -> bytes:
    """Write and read one record with kafka-python."""
    options: dict[str, Any] = {
        "bootstrap_servers": files.address,
        "security_protocol": "SSL",
        "ssl_cafile": files.authority,
        "ssl_certfile": files.own,
        "ssl_keyfile": files.own,
    }
    try:
        producer = kafka.KafkaProducer(
            **options, max_block_ms=REFUSED_AFTER_S * 1000, bootstrap_timeout_ms=REFUSED_AFTER_S * 1000
        )
        producer.send(topic, b"value").get(DEADLINE_S)
        producer.close()
    except KafkaPythonError as error:
        raise Refused(repr(error)) from error
    consumer = kafka.KafkaConsumer(topic, auto_offset_reset="earliest", **options)
    try:
        return bytes(next(consumer).value)
    finally:
        consumer.close()


CLIENTS = {"confluent": confluent, "aiokafka": with_aiokafka, "kafka-python": kafka_python}


@pytest.fixture(params=list(CLIENTS))
def exchange(request: pytest.FixtureRequest) -> Callable[[Files], bytes]:
    """Return a function that writes and reads a record, for each client one after the other."""
    topic = request.node.name.replace("[", "-").rstrip("]")
    return lambda files: CLIENTS[request.param](files, topic)


def test_records_are_exchanged(exchange: Callable[[Files], bytes], files: Callable[..., Files]) -> None:
    assert exchange(files("SSL")) == b"value"


def test_records_are_exchanged_with_a_certificate_of_the_client(
    exchange: Callable[[Files], bytes], files: Callable[..., Files]
) -> None:
    assert exchange(files("MUTUAL", INTERMEDIATE.issue("alice"))) == b"value"


@pytest.mark.parametrize(
    "listener, identity",
    [
        ("EXPIRED", None),
        ("WRONGNAME", None),
        ("UNTRUSTED", None),
        ("MUTUAL", None),
        ("MUTUAL", OTHER_AUTHORITY.issue("mallory")),
        ("MUTUAL", AUTHORITY.issue("alice", lifetime=-HOUR)),
    ],
    ids=["expired", "wrong name", "untrusted", "no certificate", "untrusted client", "expired client"],
)
def test_wrong_certificates_are_refused(
    exchange: Callable[[Files], bytes],
    files: Callable[..., Files],
    listener: str,
    identity: Identity | None,
) -> None:
    with pytest.raises(Refused):
        exchange(files(listener, identity))


def test_a_client_without_tls_is_refused(files: Callable[..., Files]) -> None:
    admin = confluent_kafka.Producer(
        {"bootstrap.servers": files("SSL").address, "message.timeout.ms": 3000, "log_level": 0}
    )
    failures: list[Any] = []
    admin.produce("plain", b"value", callback=lambda error, _: failures.append(error))
    assert admin.flush(DEADLINE_S) == 0 and failures[0] is not None


def openssl(files: Files, *options: str) -> str:
    """Return the output of openssl s_client."""
    command = ["openssl", "s_client", "-connect", files.address, "-CAfile", files.authority, *options]
    done = subprocess.run(command, input="", capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    return done.stdout + done.stderr


@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
def test_openssl_verifies_the_chain(files: Callable[..., Files], version: str) -> None:
    output = openssl(files("SSL"), version, "-verify_ip", "127.0.0.1")
    assert "Verification: OK" in output and "Verify return code: 0 (ok)" in output
    assert "CN=Intermediate CA" in output.replace(" = ", "=")


def test_versions_below_tls_1_2_are_refused(files: Callable[..., Files]) -> None:
    output = openssl(files("SSL"), "-tls1_1", "-cipher", "ALL:@SECLEVEL=0")
    assert "Cipher is (NONE)" in output


def test_a_client_cannot_renegotiate(files: Callable[..., Files]) -> None:
    assert "Secure Renegotiation IS supported" in openssl(files("SSL"), "-tls1_2")
    listener = files("SSL")
    command = ["openssl", "s_client", "-connect", listener.address, "-tls1_2", "-CAfile", listener.authority]
    done = subprocess.run(command, input="R\n", capture_output=True, text=True, timeout=20, check=False)
    assert "no renegotiation" in done.stdout + done.stderr
