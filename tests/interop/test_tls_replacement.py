"""A certificate is replaced by a dynamic config, with clients that are connected meanwhile."""

from __future__ import annotations

import asyncio
import ssl
import threading
from functools import partial
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.support.foreign_clients.single_records import WRITERS
from tests.support.waiting import TIMEOUT_S, wait_until
from tidelog.broker.node.wiring import tls_certificates
from tidelog.clients.consumer.consumer import Consumer
from tidelog.clients.producer.producer import Producer
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.security.certificate_authority import Authority, Identity
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop

AUTHORITY = Authority.create()
LOCATION = "listener.name.ssl.ssl.keystore.location"


def presented_certificate(port: int) -> str:
    return ssl.get_server_certificate(("127.0.0.1", port))


def alter(admin: AdminClient, location: Path) -> None:
    entry = ConfigEntry(LOCATION, str(location), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(TIMEOUT_S)


def test_a_certificate_is_replaced_by_a_dynamic_config(tmp_path: Path) -> None:
    first, second = AUTHORITY.issue("broker"), AUTHORITY.issue("broker")
    config = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "listener.name.ssl.ssl.keystore.type": "PEM",
        LOCATION: str(first.write_pem(tmp_path / "first.pem")),
    }
    with EmbeddedCluster(config=config) as cluster:
        port = cluster.run(lambda node: node.bound_port("SSL"))
        plain = cluster.run(lambda node: node.bound_port("PLAINTEXT"))
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": f"127.0.0.1:{port}",
                "security.protocol": "ssl",
                "ssl.ca.location": str(AUTHORITY.write(tmp_path / "ca.pem")),
            }
        )
        producer.produce("events", b"before")
        assert producer.flush(20) == 0
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{plain}"})
        alter(admin, second.write_pem(tmp_path / "second.pem"))
        wait_until(lambda: presented_certificate(port) in second.chain_pem())
        producer.produce("events", b"after")
        assert producer.flush(20) == 0

        with pytest.raises(confluent_kafka.KafkaException, match="cannot read the file"):
            alter(admin, tmp_path / "missing.pem")
        other = AUTHORITY.issue("another").write_pem(tmp_path / "other.pem")
        with pytest.raises(confluent_kafka.KafkaException, match="distinguished name CN=broker"):
            alter(admin, other)
        assert presented_certificate(port) in second.chain_pem()


REPLACEMENTS = 4
OWN = "tidelog"


def is_presented(port: int, identity: Identity) -> bool:
    return presented_certificate(port) in identity.chain_pem()


def test_no_record_is_lost_while_the_files_of_a_certificate_are_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_certificates, "CHECK_INTERVAL_S", 0.05)
    path = AUTHORITY.issue("broker").write_pem(tmp_path / "broker.pem")
    config = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "listener.name.ssl.ssl.keystore.type": "PEM",
        LOCATION: str(path),
    }
    with EmbeddedCluster(config=config) as cluster:
        port = cluster.run(lambda node: node.bound_port("SSL"))
        load = Load(f"127.0.0.1:{port}", AUTHORITY.write(tmp_path / "ca.pem"))
        load.start()
        for _ in range(REPLACEMENTS):
            identity = AUTHORITY.issue("broker")
            identity.write_pem(path)
            wait_until(partial(is_presented, port, identity))
            # All producers continue with their former connections, and new ones get the new certificate.
            wait_until(partial(load.has_more_than, load.acknowledged()))
            load.write_with_new_connections()
        load.stop()
        assert load.errors == []
        assert load.read_back() == load.acknowledged()


class Load:
    """Producers of each client that write numbers, each to a topic with its name."""

    def __init__(self, address: str, authority: Path) -> None:
        self.errors: list[object] = []
        self._address = address
        self._authority = authority
        self._stopped = threading.Event()
        self._counts = dict.fromkeys([*WRITERS, OWN], 0)
        self._threads = [
            *(threading.Thread(target=self._run, args=[client]) for client in WRITERS),
            threading.Thread(target=lambda: asyncio.run(self._run_own())),
        ]

    def start(self) -> None:
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        self._stopped.set()
        for each in self._threads:
            each.join(TIMEOUT_S)

    def has_more_than(self, counts: dict[str, int]) -> bool:
        """Return whether each producer has written 20 more records."""
        return all(self._counts[client] >= then + 20 for client, then in counts.items())

    def acknowledged(self) -> dict[str, int]:
        """Return the number of acknowledged records of each producer."""
        return dict(self._counts)

    def write_with_new_connections(self) -> None:
        """Write a record with a new producer of each other project."""
        for client, create in WRITERS.items():
            writer = create(self._foreign_options(client))
            writer.write("by-new-connections", b"value")
            writer.close()

    def read_back(self) -> dict[str, int]:
        """Return the number of different records in each topic, read by a new client."""
        return {client: asyncio.run(self._read(client)) for client in self._counts}

    def _options(self) -> dict[str, Any]:
        return {
            "security_protocol": "SSL",
            "ssl_truststore_type": "PEM",
            "ssl_truststore_location": str(self._authority),
        }

    def _foreign_options(self, client: str) -> dict[str, Any]:
        if client == "confluent":
            return {
                "bootstrap.servers": self._address,
                "security.protocol": "ssl",
                "ssl.ca.location": str(self._authority),
            }
        context = ssl.create_default_context(cafile=self._authority)
        return {"bootstrap_servers": self._address, "security_protocol": "SSL", "ssl_context": context}

    def _run(self, client: str) -> None:
        writer = WRITERS[client](self._foreign_options(client))
        try:
            while not self._stopped.is_set():
                writer.write(client, b"%d" % self._counts[client])
                self._counts[client] += 1
        except Exception as error:
            self.errors.append(error)
        finally:
            writer.close()

    async def _run_own(self) -> None:
        try:
            async with Producer(self._address, **self._options()) as producer:
                while not self._stopped.is_set():
                    await producer.send_and_wait(OWN, b"%d" % self._counts[OWN])
                    self._counts[OWN] += 1
        except KafkaError as error:
            self.errors.append(error)

    async def _read(self, topic: str) -> int:
        values: set[bytes | None] = set()
        async with Consumer(self._address, auto_offset_reset="earliest", **self._options()) as consumer:
            place = TopicPartition(topic, 0)
            consumer.assign([place])
            end = (await consumer.end_offsets([place]))[place]
            while await consumer.position(place) < end:
                for records in (await consumer.poll(500)).values():
                    values.update(record.value for record in records)
        return len(values)
