"""Secrets that are planted in every secret setting appear in no log, error, representation or response."""

from __future__ import annotations

import asyncio
import logging
import traceback
import urllib.request

import pytest

from tests.support.cli import tidelog
from tidelog.base.config_definition import ConfigError
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.config.oauthbearer_config import SIGNED_VALIDATOR
from tidelog.broker.config.settings import BROKER_CONFIGS
from tidelog.broker.node.node import BrokerNode
from tidelog.clients.admin.admin import Admin
from tidelog.clients.admin.types import ConfigChange, ConfigResource, ResourceType
from tidelog.security.jaas import OAUTHBEARER_LOGIN_MODULE
from tidelog.testing.embedded import EmbeddedCluster

CANARY = "canary-2f61"
SECRET_KEYS = sorted(key for key, definition in BROKER_CONFIGS.items() if definition.is_sensitive)
BROKER = ConfigResource(ResourceType.BROKER, "1")


def planted_secrets() -> dict[str, str]:
    """Every secret key, also with the prefix of a listener, and secrets in keys of other parts."""
    values = {key: f"{CANARY}-{number}" for number, key in enumerate(SECRET_KEYS)}
    prefixed = {f"listener.name.other.{key}": value for key, value in values.items()}
    others = (
        "listener.name.other.plain.sasl.jaas.config",
        "listener.name.other.oauthbearer.sasl.oauthbearer.client.credentials.client.secret",
        "config.providers.other.param.token",
        "rsm.config.storage.aws.secret.access.key",
        "rlmm.config.remote.log.metadata.common.client.sasl.jaas.config",
    )
    return values | prefixed | dict.fromkeys(others, CANARY)


def metrics_of(node: BrokerNode) -> str:
    """Return the address of the metrics of a node."""
    return f"http://127.0.0.1:{node.metrics_port}/metrics"


def output_of_commands(servers: str) -> str:
    """Return all that commands print that describe and set configs of the broker, and fail."""
    commands = (
        ("config", "describe", "broker", "1", "--all"),
        ("config", "describe", "broker", "1", "--all", "--json"),
        ("config", "set", "broker", "1", f"ssl.keystore.password={CANARY}"),
        ("config", "set", "broker", "1", f"listener.name.other.ssl.keystore.password={CANARY}"),
        ("topic", "list", "-X", "sasl.mechanism=PLAIN", "-X", f"sasl.password={CANARY}"),
        ("topic", "list", "-X", "security.protocol=SASL_SSL", "-X", f"sasl.jaas.config={CANARY}"),
    )
    results = [tidelog(*command, bootstrap=servers) for command in commands]
    assert [result.exit_code for result in results[:2]] == [0, 0]
    assert "ssl.keystore.password" in results[0].output
    return "".join(result.output + result.stderr for result in results)


def test_the_secret_keys_are_known() -> None:
    assert {"sasl.jaas.config", "ssl.key.password", "delegation.token.secret.key"} <= set(SECRET_KEYS)


def test_a_running_node_does_not_show_secrets(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)

    async def describe_all(servers: str) -> str:
        async with Admin(servers) as admin:
            configs = await admin.describe_configs([BROKER, ConfigResource(ResourceType.BROKER, "")])
            changes = [ConfigChange(name=key, value=CANARY) for key in (*SECRET_KEYS, "unknown.password")]
            responses = [await admin.incremental_alter_configs({BROKER: [change]}) for change in changes]
            after = await admin.describe_configs([BROKER])
            return repr((configs, responses, after))

    with EmbeddedCluster(config={**planted_secrets(), "metrics.port": "0"}) as running:
        text = asyncio.run(describe_all(running.bootstrap_servers))
        text += output_of_commands(running.bootstrap_servers)
        with urllib.request.urlopen(running.run(metrics_of), timeout=10) as response:
            text += response.read().decode()
        assert all(key in text for key in SECRET_KEYS)
        text += repr(running.run(lambda node: node.services.config))
    captured = capfd.readouterr()
    assert CANARY not in text
    assert CANARY not in caplog.text
    assert CANARY not in captured.out + captured.err


@pytest.mark.parametrize(
    "broken",
    [
        {"listener.name.clients.plain.sasl.jaas.config": f'{CANARY} required user_a="{CANARY}";'},
        {"listener.name.clients.sasl.jaas.config": CANARY},
        {"listener.name.clients.plain.sasl.jaas.config": CANARY, "sasl.jaas.config": CANARY},
        {"sasl.enabled.mechanisms": "GSSAPI"},
        {
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.clients.oauthbearer.sasl.jaas.config": f"{OAUTHBEARER_LOGIN_MODULE} required "
            f'clientSecret="{CANARY}";',
        },
        {
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.clients.oauthbearer.sasl.server.callback.handler.class": SIGNED_VALIDATOR,
            "sasl.oauthbearer.jwks.endpoint.url": f"https://user:{CANARY}@id.example/keys",
        },
    ],
)
def test_an_invalid_config_is_refused_without_showing_secrets(broken: dict[str, str]) -> None:
    values = {
        **planted_secrets(),
        "node.id": "1",
        "listeners": "PLAINTEXT://:1,CLIENTS://:2",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        **broken,
    }
    with pytest.raises(ConfigError) as raised:
        BrokerConfig(values)
    error = raised.value
    assert CANARY not in "".join(traceback.format_exception(error)) + repr(error) + str(error.value)
