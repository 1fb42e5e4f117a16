"""Access control entries of the tests."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from tests.kafka.kafka_node import Node
from tests.kafka.secured_cluster import SecuredCluster, password_of
from tests.reference_software.kafka_programs import WITHIN_S
from tests.support.waiting import wait_until
from tidelog.clients.admin.admin import Admin
from tidelog.clients.admin.security import AclBinding
from tidelog.protocol.access_control import AclOperation, AclResourceType, PatternType, PermissionType
from tidelog.security.jaas import PLAIN_LOGIN_MODULE


def grant(
    secured: SecuredCluster,
    kind: AclResourceType,
    name: str,
    *operations: AclOperation,
    user: str = "alice",
    pattern: PatternType = PatternType.LITERAL,
    permission: PermissionType = PermissionType.ALLOW,
    host: str = "*",
) -> None:
    """Create entries, and wait until both brokers have them."""
    entries = [AclBinding(kind, name, f"User:{user}", each, permission, host, pattern) for each in operations]

    async def create() -> None:
        async with Admin(secured.cluster.bootstrap_servers, **own_options(secured, "admin")) as admin:
            assert set((await admin.create_acls(entries)).values()) == {None}

    asyncio.run(create())
    for node in secured.brokers:
        wait_until(partial(has_entries, secured, node, entries), timeout_s=WITHIN_S)


def has_entries(secured: SecuredCluster, node: Node, entries: list[AclBinding]) -> bool:
    """Return whether a broker has these entries."""

    async def list_acls() -> set[AclBinding]:
        async with Admin(node.address, **own_options(secured, "admin")) as admin:
            return set(await admin.describe_acls())

    return set(entries) <= asyncio.run(list_acls())


def own_options(secured: SecuredCluster, user: str) -> dict[str, Any]:
    """Return the options of our own clients for a user."""
    return {
        "security_protocol": "SASL_SSL",
        "ssl_truststore_type": "PEM",
        "ssl_truststore_location": secured.authority_file("ca"),
        "sasl_mechanism": "PLAIN",
        "sasl_jaas_config": (
            f'{PLAIN_LOGIN_MODULE} required username="{user}" password="{password_of(user)}";'
        ),
    }
