"""Tidelog's clients with certificates at nodes of both kinds: right, missing, untrusted and expired ones."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.kafka.grants import grant
from tests.kafka.secured_cluster import Client, SecuredCluster
from tests.reference_software.kafka_programs import Engine
from tests.support.cli import tidelog_output
from tidelog.clients.admin.admin import Admin
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.errors import KafkaError
from tidelog.security.certificate_authority import DAY, Identity


def options(secured: SecuredCluster, identity: Identity | None, authority: str = "ca") -> dict[str, Any]:
    """Return the options of a client that presents a certificate."""
    trusted = {"ssl_truststore_type": "PEM", "ssl_truststore_location": secured.authority_file(authority)}
    own = {}
    if identity is not None:
        path = secured.certificates.write(f"own-{identity.certificate.serial_number:x}", identity)
        own = {"ssl_keystore_type": "PEM", "ssl_keystore_location": str(path)}
    return {"security_protocol": "SSL", **trusted, **own}


def topics(address: str, client_options: dict[str, Any]) -> set[str]:
    async def visible() -> set[str]:
        async with Admin(address, request_timeout_ms=5_000, **client_options) as admin:
            return set(await admin.list_topics())

    return asyncio.run(visible())


@pytest.mark.parametrize("engine", list(Engine))
def test_a_client_is_the_subject_of_its_certificate(secured: SecuredCluster, engine: Engine) -> None:
    topic = f"certified-{engine.name.lower()}"
    secured.clients.create_topic(topic, [[secured.node(engine).number]])
    grant(secured, AclResourceType.TOPIC, topic, AclOperation.DESCRIBE, user="CN=certified")
    address = secured.address(secured.node(engine), Client.TLS)
    identity = secured.certificates.authority.issue("certified")
    assert topic in topics(address, options(secured, identity))
    assert topic not in topics(address, options(secured, secured.certificates.authority.issue("other")))
    file = str(secured.tls_file(identity))
    listed = tidelog_output("topic", "list", "-b", address, "--command-config", file, "--json")
    assert topic in {each["name"] for each in json.loads(listed)}


@pytest.mark.parametrize("engine", list(Engine))
@pytest.mark.parametrize(
    "case",
    [
        "no certificate",
        "untrusted certificate",
        "expired certificate",
        "untrusted broker",
        "expired broker",
        "other name",
    ],
)
def test_a_wrong_certificate_of_either_side_ends_the_connection(
    secured: SecuredCluster, engine: Engine, case: str
) -> None:
    authority, other = secured.certificates.authority, secured.certificates.other
    listener = {"expired broker": Client.EXPIRED, "other name": Client.OTHER_HOST}.get(case, Client.TLS)
    identity = {
        "untrusted certificate": other.issue("certified"),
        "expired certificate": authority.issue("certified", lifetime=-DAY),
        "untrusted broker": authority.issue("certified"),
    }.get(case)
    trusted = "other-ca" if case == "untrusted broker" else "ca"
    with pytest.raises(KafkaError):
        topics(secured.address(secured.node(engine), listener), options(secured, identity, trusted))
