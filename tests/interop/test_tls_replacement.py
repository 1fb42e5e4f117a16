"""A certificate is replaced by a dynamic config, with clients that are connected meanwhile."""

from __future__ import annotations

import ssl
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.support.security.certificates import Authority
from tests.support.waiting import wait_until
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop

AUTHORITY = Authority.create()
LOCATION = "listener.name.ssl.ssl.keystore.location"


def presented(port: int) -> str:
    return ssl.get_server_certificate(("127.0.0.1", port))


def alter(admin: AdminClient, location: Path) -> None:
    entry = ConfigEntry(LOCATION, str(location), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(20)


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
        wait_until(lambda: presented(port) in second.chain_pem())
        producer.produce("events", b"after")
        assert producer.flush(20) == 0

        with pytest.raises(confluent_kafka.KafkaException, match="cannot read the file"):
            alter(admin, tmp_path / "missing.pem")
        other = AUTHORITY.issue("another").write_pem(tmp_path / "other.pem")
        with pytest.raises(confluent_kafka.KafkaException, match="distinguished name CN=broker"):
            alter(admin, other)
        assert presented(port) in second.chain_pem()
