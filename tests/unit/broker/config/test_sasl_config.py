"""SASL settings of listeners: Kafka's keys and prefixes, one clear line for what cannot work, no secrets."""

from __future__ import annotations

import pytest

from tidelog.base.config_definition import ConfigError
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.config.sasl_config import peer_credentials, sasl_listener_config
from tidelog.clients.config.sasl_credentials import SaslCredentials
from tidelog.security.jaas import PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE

SECRET = "canary-41d0"
PREFIX = "listener.name.clients."
JAAS = f'{PLAIN_LOGIN_MODULE} required username="broker" password="{SECRET}" user_alice="{SECRET}";'
BASE = {
    "node.id": "1",
    "listeners": "PLAINTEXT://:0,CLIENTS://:1",
    "advertised.listeners": "PLAINTEXT://here:0,CLIENTS://here:1",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    f"{PREFIX}plain.sasl.jaas.config": JAAS,
}


BETWEEN_BROKERS = {
    "inter.broker.listener.name": "CLIENTS",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
}


def with_keys(changes: dict[str, str | None]) -> BrokerConfig:
    return BrokerConfig({key: text for key, text in {**BASE, **changes}.items() if text is not None})


def config_error(changes: dict[str, str | None]) -> str:
    with pytest.raises(ConfigError) as raised:
        with_keys(changes)
    text = str(raised.value)
    assert "\n" not in text and SECRET not in text
    assert SECRET not in str(raised.value.value) and raised.value.__cause__ is None
    return text


def test_a_listener_has_its_users_and_the_defaults_of_kafka() -> None:
    sasl_config = sasl_listener_config(with_keys({}), "CLIENTS")
    assert sasl_config.mechanisms == ("PLAIN",)
    assert sasl_config.plain_users == {"alice": SECRET}
    assert sasl_config.reauthentication_ms == {"PLAIN": 0}
    assert (sasl_config.max_receive_bytes, sasl_config.failure_delay_ms) == (524_288, 100)
    assert SECRET not in repr(sasl_config)


def test_a_listener_overrides_the_general_keys() -> None:
    changes = {
        f"{PREFIX}sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN,PLAIN",
        "connections.max.reauth.ms": "1000",
        f"{PREFIX}plain.connections.max.reauth.ms": "2000",
        f"{PREFIX}sasl.server.max.receive.size": "3000",
        f"{PREFIX}scram-sha-512.sasl.jaas.config": f"{SCRAM_LOGIN_MODULE} required;",
    }
    sasl_config = sasl_listener_config(with_keys(dict(changes)), "CLIENTS")
    assert sasl_config.mechanisms == ("SCRAM-SHA-512", "PLAIN")
    assert sasl_config.reauthentication_ms == {"SCRAM-SHA-512": 1000, "PLAIN": 2000}
    assert sasl_config.max_receive_bytes == 3000


def test_scram_needs_no_jaas_config() -> None:
    changes = {"sasl.enabled.mechanisms": "SCRAM-SHA-256", f"{PREFIX}plain.sasl.jaas.config": None}
    assert sasl_listener_config(with_keys(dict(changes)), "CLIENTS").plain_users == {}


def test_kerberos_is_rejected_with_a_clear_line() -> None:
    for mechanisms in (None, "GSSAPI", "PLAIN,GSSAPI"):
        text = config_error({"sasl.enabled.mechanisms": mechanisms})
        assert "Kerberos is not supported; allowed are: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512" in text


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"sasl.enabled.mechanisms": "DIGEST-MD5"}, "allowed are: PLAIN"),
        ({f"{PREFIX}sasl.enabled.mechanisms": ""}, "allowed are: PLAIN"),
        ({f"{PREFIX}plain.sasl.jaas.config": None}, "has no users for PLAIN"),
        ({f"{PREFIX}plain.sasl.jaas.config": JAAS[:-1]}, "semicolon"),
        ({f"{PREFIX}plain.sasl.jaas.config": JAAS.replace("PlainLogin", "Jndi")}, "requires"),
        ({"sasl.jaas.config": JAAS}, "<mechanism>"),
        ({f"{PREFIX}sasl.jaas.config": JAAS}, "<mechanism>"),
        ({f"{PREFIX}PLAIN.sasl.jaas.config": JAAS}, "<mechanism>"),
        ({"sasl.server.callback.handler.class": "com.example.Handler"}, "cannot be loaded"),
        ({f"{PREFIX}plain.sasl.login.class": "com.example.Login"}, "cannot be loaded"),
        ({f"{PREFIX}sasl.server.max.receive.size": "x"}, "sasl.server.max.receive.size"),
        ({"inter.broker.listener.name": "CLIENTS"}, "sasl.mechanism.inter.broker.protocol=GSSAPI"),
        (
            {
                "inter.broker.listener.name": "CLIENTS",
                "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
            },
            "connect to the other nodes",
        ),
        (
            {
                **BETWEEN_BROKERS,
                f"{PREFIX}plain.sasl.jaas.config": JAAS.replace("username", "user"),
            },
            "no username",
        ),
        ({**BETWEEN_BROKERS, f"{PREFIX}sasl.enabled.mechanisms": "SCRAM-SHA-256"}, "has only: SCRAM-SHA-256"),
    ],
)
def test_invalid_settings_are_refused(changes: dict[str, str | None], part: str) -> None:
    assert part in config_error(changes)


def test_a_node_authenticates_with_the_options_of_its_listener() -> None:
    config = with_keys(dict(BETWEEN_BROKERS))
    sasl_config = peer_credentials(config, "CLIENTS")
    assert isinstance(sasl_config, SaslCredentials)
    assert (sasl_config.mechanism, sasl_config.user, sasl_config.password) == ("PLAIN", "broker", SECRET)
    assert peer_credentials(config, "PLAINTEXT") is None


def test_controllers_that_elect_a_leader_cannot_use_scram() -> None:
    changes = {
        "process.roles": "controller",
        "listeners": "CLIENTS://:1",
        "advertised.listeners": None,
        "controller.listener.names": "CLIENTS",
        "inter.broker.listener.name": None,
        "controller.quorum.voters": "1@a:1,2@b:1",
        "sasl.mechanism.controller.protocol": "SCRAM-SHA-256",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        f"{PREFIX}scram-sha-256.sasl.jaas.config": JAAS.replace("plain.Plain", "scram.Scram"),
    }
    assert "elect a leader" in config_error(dict(changes))
    with_keys({**changes, "controller.quorum.voters": "1@a:1"})
