"""Dynamic broker configs: Tidelog accepts and rejects the same changes as Apache Kafka, key by key."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.kafka.kafka_node import MixedCluster, Node
from tests.reference_software.kafka_programs import WITHIN_S, Engine
from tests.support.waiting import eventually_returns
from tidelog.base.config_definition import ConfigKind
from tidelog.broker.config.dynamic_configs import BROKER_DEFINITIONS
from tidelog.broker.config.dynamic_keys import DYNAMIC_ONLY_CONFIGS, THREAD_COUNT_KEYS
from tidelog.clients.admin.admin import (
    Admin,
    AlterOperation,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from tidelog.local_cluster.ports import free_ports
from tidelog.protocol.errors import KafkaError

BROKER = ConfigResource(ResourceType.BROKER, "1")
ALL_BROKERS = ConfigResource(ResourceType.BROKER, "")
OF_THE_NODE = frozenset({"listeners", "advertised.listeners", "log.dirs", "controller.quorum.voters"})
"""Keys whose values differ because the nodes do."""
OTHER_DEFAULTS = frozenset(
    {
        "socket.send.buffer.bytes",
        "socket.receive.buffer.bytes",
        "socket.listen.backlog.size",
        "replica.socket.receive.buffer.bytes",
    }
)
"""The keys that docs/configuration.md lists."""

NUMBERS = ("1", "0", "-1", "-2", "100000", "2147483648", "x", "")
VALUES = {
    ConfigKind.BOOLEAN: ("true", "false", "x"),
    ConfigKind.INT: NUMBERS,
    ConfigKind.SHORT: NUMBERS,
    ConfigKind.LONG: NUMBERS,
    ConfigKind.DOUBLE: ("0.5", "0", "1.5", "-1", "x"),
    ConfigKind.LIST: ("a", "a,b", ""),
}
DIFFERENT = frozenset(
    {
        ("log.flush.interval.ms", "-1"),
        ("log.flush.interval.ms", "-2"),
        ("log.retention.ms", "-2"),
        ("allow.everyone.if.no.acl.found", "true"),
        ("allow.everyone.if.no.acl.found", "false"),
        ("allow.everyone.if.no.acl.found", "x"),
        ("super.users", "x"),
        ("super.users", ""),
        ("listener.name.plaintext.controller.quorum.bootstrap.servers", "a"),
        ("listener.name.plaintext.controller.quorum.voters", "a"),
    }
)
"""The differences that docs/differences.md states."""


PREFIX = "listener.name.plaintext."
CHANGES: tuple[tuple[dict[str, str], str], ...] = (
    ({"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,OTHER:SSL"}, "NONE"),
    ({"sasl.kerberos.kinit.cmd": "/bin/true", "sasl.jaas.config": "secret"}, "NONE"),
    ({"sasl.enabled.mechanisms": "PLAIN,GSSAPI", "ssl.client.auth": "required"}, "NONE"),
    ({"log.roll.ms": "70000", "my.own": "1", f"{PREFIX}plain.sasl.jaas.config": "secret"}, "NONE"),
    ({"sasl.kerberos.kinit.cmd": "/x", f"{PREFIX}plain.sasl.jaas.config": "x"}, "INVALID_REQUEST"),
    ({"listener.name.other.ssl.keystore.location": "/x"}, "NONE"),
    ({"listener.name.other.ssl.keystore.password": "secret", f"{PREFIX}max.connections": "50"}, "NONE"),
    ({"listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:PLAINTEXT"}, "INVALID_REQUEST"),
    ({"listener.security.protocol.map": "CONTROLLER:PLAINTEXT"}, "INVALID_REQUEST"),
    (
        {"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,NEW:SSL"},
        "INVALID_REQUEST",
    ),
)
"""Changes for the broker, one after the other, with their outcomes; then the broker is described."""


class Attempt(NamedTuple):
    """A change that is validated for one broker and for all."""

    operation: AlterOperation
    key: str
    value: str | None


def attempts(described: dict[str, ConfigEntry]) -> Iterator[Attempt]:
    """Return changes of every key, with its present value and others, also with the prefix of a listener."""
    for key, definition in BROKER_DEFINITIONS.items():
        entry = described.get(key)
        if entry is None and not definition.internal and key not in DYNAMIC_ONLY_CONFIGS:
            continue  # a key of Tidelog only
        in_force = [entry.value] if entry is not None and entry.value is not None else []
        values = list(dict.fromkeys([*in_force, *VALUES.get(definition.kind, ("x", ""))]))
        prefixed = [(f"listener.name.plaintext.{key}", value) for value in values[:2]]
        for name, value in (*((key, each) for each in values), *prefixed):
            if (name, value) not in DIFFERENT and key not in OF_THE_NODE:
                yield Attempt(AlterOperation.SET, name, value)
        yield Attempt(AlterOperation.SET, f"listener.name.elsewhere.{key}", values[0])
        yield Attempt(AlterOperation.DELETE, key, None)
    for key in THREAD_COUNT_KEYS:
        for count in range(25):
            yield Attempt(AlterOperation.SET, key, str(count))


@contextmanager
def node_of(engine: Engine, folder: Path) -> Iterator[Node]:
    folder.mkdir()
    cluster = MixedCluster(
        folder, settings={"offsets.topic.replication.factor": "1", "log.cleaner.enable": "true"}
    )
    node = cluster.add(1, engine, "broker,controller")
    controller = f"127.0.0.1:{free_ports(1)[0]}"
    node.settings = {
        "listeners": f"PLAINTEXT://{node.address},CONTROLLER://{controller}",
        "controller.quorum.voters": f"1@{controller}",
    }
    try:
        cluster.format(node)
        cluster.start(node)
        yield node
    finally:
        cluster.end()


async def connect_admin(node: Node) -> Admin:
    """Return an admin client, as soon as its node, which listens earlier, returns its description."""

    async def connect() -> Admin:
        admin = Admin(node.address)
        try:
            await admin.start()
            await describe(admin)
        except BaseException:
            await admin.close()
            raise
        return admin

    return await eventually_returns(connect, tolerated=(KafkaError,), timeout_s=WITHIN_S)


async def describe(admin: Admin) -> dict[str, ConfigEntry]:
    result = (await admin.describe_configs([BROKER]))[BROKER]
    assert not isinstance(result, KafkaError)
    return result


async def outcomes(admin: Admin, attempts: Iterable[Attempt]) -> dict[tuple[str, Attempt], str]:
    """Return the error of every attempt, NONE for success."""
    errors = {}
    for attempt in attempts:
        change = ConfigChange(name=attempt.key, value=attempt.value, operation=attempt.operation)
        for resource in (BROKER, ALL_BROKERS):
            response = await admin.incremental_alter_configs({resource: [change]}, validate_only=True)
            error = response[resource]
            errors[resource.name, attempt] = "NONE" if error is None else error.code.name
    return errors


async def apply_changes(admin: Admin) -> list[str]:
    """Return the error of each change; wait after each until the broker describes it."""
    errors = []
    for configs, _ in CHANGES:
        changes = [ConfigChange(name=key, value=value) for key, value in configs.items()]
        error = (await admin.incremental_alter_configs({BROKER: changes}))[BROKER]
        errors.append("NONE" if error is None else error.code.name)
        deadline = time.monotonic() + WITHIN_S
        while error is None and not is_set(await describe(admin), configs):
            assert time.monotonic() < deadline, f"{configs} are not described"
    return errors


def is_set(described_configs: dict[str, ConfigEntry], configs: Mapping[str, str]) -> bool:
    entries = {key: described_configs.get(key) for key in configs}
    return all(
        entry is not None and (entry.is_sensitive or entry.value == configs[key])
        for key, entry in entries.items()
    )


async def test_every_change_of_a_broker_config_has_kafkas_result(tmp_path: Path) -> None:
    with (
        node_of(Engine.KAFKA, tmp_path / "kafka") as kafkas,
        node_of(Engine.TIDELOG, tmp_path / "tidelog") as ours,
    ):
        theirs_admin, our_admin = await connect_admin(kafkas), await connect_admin(ours)
        try:
            expected_configs = await describe(theirs_admin)
            tried = list(attempts(expected_configs))
            assert len(tried) > 3_000
            expected = await outcomes(theirs_admin, tried)
            actual = await outcomes(our_admin, tried)
            different = {key: (code, actual[key]) for key, code in expected.items() if code != actual[key]}
            assert not different
            for admin in (theirs_admin, our_admin):
                assert await apply_changes(admin) == [outcome for _, outcome in CHANGES]
            expected_configs = await describe(theirs_admin)
            own_configs = await describe(our_admin)
            assert own_configs.keys() >= expected_configs.keys()
            for key in expected_configs.keys() - OF_THE_NODE - OTHER_DEFAULTS:
                assert own_configs[key] == expected_configs[key]
        finally:
            await theirs_admin.close()
            await our_admin.close()
