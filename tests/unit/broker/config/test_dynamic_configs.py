"""Dynamic broker configs: allowed changes, and stored values that are ignored."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.support.paths import GOLDEN_FILES
from tidelog.broker.config.config_synonyms import broker_definition, broker_synonyms
from tidelog.broker.config.dynamic_checks import check_broker_change
from tidelog.broker.config.dynamic_configs import DynamicBrokerConfig, effective_config, usable_configs
from tidelog.broker.config.dynamic_keys import LISTENER_SECURITY_KEYS, PER_BROKER_KEYS
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.cluster.delta import MetadataDelta
from tidelog.cluster.image import MetadataImage, ResourceType
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.metadata_records.config_record import ConfigRecord

IMAGE = MetadataImage(cluster_id="test")
CONFIG = BrokerConfig({"node.id": "1"})
GOLDEN = GOLDEN_FILES / "broker" / "dynamic_configs.txt"


def results_of_kafka() -> list[tuple[str, str, str]]:
    """Outcomes, key and value per line, of IncrementalAlterConfigs in Apache Kafka 4.3.1.

    The outcomes are those of the key for the broker, of the key for all brokers, and of both with the
    prefix `listener.name.plaintext.`: `+` accepted, `-` INVALID_REQUEST, `c` refused by the controller.
    The value is the one in force, or 1 for a key without a value.
    """
    results = []
    for line in GOLDEN.read_text().splitlines():
        outcomes, _, setting = line.partition(" ")
        key, _, value = setting.partition("=")
        results.append((outcomes, key, value))
    return results


def is_accepted(config: BrokerConfig, name: str, configs: Mapping[str, str]) -> bool:
    try:
        check_broker_change(config, IMAGE, name, configs)
    except KafkaError as error:
        assert error.code is ErrorCode.INVALID_REQUEST
        return False
    return True


def refusal(name: str, configs: Mapping[str, str], config: BrokerConfig = CONFIG) -> str:
    with pytest.raises(KafkaError) as refused:
        check_broker_change(config, IMAGE, name, configs)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    return str(refused.value)


def with_stored(name: str, configs: Mapping[str, str]) -> tuple[MetadataDelta, MetadataImage]:
    delta = MetadataDelta(IMAGE)
    for key, value in configs.items():
        delta.replay(
            ConfigRecord(resource_type=ResourceType.BROKER, resource_name=name, name=key, value=value)
        )
    return delta, delta.image(1, 1)


def test_every_key_is_accepted_or_refused_as_in_kafka() -> None:
    results = results_of_kafka()
    values = {key: value for _, key, value in results}
    own = ("listeners", "controller.quorum.voters", "log.dirs")
    config = BrokerConfig(
        {
            "node.id": "1",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": values["listener.security.protocol.map"],
            **{key: values[key] for key in own},
        }
    )
    different = []
    for outcomes, key, value in results:
        attempts = [("1", key), ("", key), ("1", f"listener.name.plaintext.{key}")]
        attempts.append(("", f"listener.name.plaintext.{key}"))
        for outcome, (name, tried) in zip(outcomes, attempts, strict=True):
            if is_accepted(config, name, {tried: value}) != (outcome in "+c"):
                different.append((name, tried, value, outcome))
    assert not different
    assert len(results) == 340


def test_exactly_ten_security_keys_need_the_prefix_of_a_listener() -> None:
    assert len(LISTENER_SECURITY_KEYS) == 10
    for key in LISTENER_SECURITY_KEYS:
        assert "using the listener prefix: " + key in refusal("1", {key: "x"})
        check_broker_change(CONFIG, IMAGE, "1", {f"listener.name.plaintext.{key}": "x"})
    others = {key for key in PER_BROKER_KEYS - LISTENER_SECURITY_KEYS if key.startswith(("sasl.", "ssl."))}
    assert len(others) == 23
    for key in others - {"ssl.engine.factory.class"}:
        definition = broker_definition(key)
        assert definition is not None
        check_broker_change(CONFIG, IMAGE, "1", {key: definition.default_text or "x"})
        assert "broker id must be specified" in refusal("", {key: definition.default_text or "x"})


def test_three_keys_of_listeners_may_be_set_for_all_brokers() -> None:
    for key in ("max.connections", "max.connection.creation.rate", "num.network.threads"):
        check_broker_change(CONFIG, IMAGE, "", {f"listener.name.plaintext.{key}": "3"})
    assert "broker id must be specified" in refusal("", {"listener.name.plaintext.num.io.threads": "3"})


@pytest.mark.parametrize("key", ["num.io.threads", "log.cleaner.threads", "remote.log.reader.threads"])
@pytest.mark.parametrize("name", ["", "1"])
def test_a_number_of_threads_changes_by_a_factor_of_two_at_most(key: str, name: str) -> None:
    config = BrokerConfig({"node.id": "1", key: "5"})
    accepted = [count for count in range(-1, 20) if is_accepted(config, name, {key: str(count)})]
    assert accepted == list(range(2, 11))


def test_the_number_of_threads_of_a_listener_follows_the_same_rule() -> None:
    key = "listener.name.plaintext.num.network.threads"
    assert is_accepted(CONFIG, "1", {key: "6"})
    assert not is_accepted(CONFIG, "1", {key: "7"})
    assert is_accepted(CONFIG, "1", {"listener.name.elsewhere.num.network.threads": "7"})
    node_config = BrokerConfig({"node.id": "1", key: "many"})
    assert not is_accepted(node_config, "1", {"num.io.threads": "9"})


def test_java_classes_other_than_those_of_the_start_are_refused() -> None:
    for key in ("principal.builder.class", "metric.reporters", "ssl.engine.factory.class"):
        assert "could not be found" in refusal("1", {key: "com.example.Unknown"})
        config = BrokerConfig({"node.id": "1", key: "com.example.Given"})
        check_broker_change(config, IMAGE, "1", {key: "com.example.Given"})
    prefixed = "listener.name.plaintext.sasl.server.callback.handler.class"
    assert "could not be found" in refusal("1", {prefixed: "com.example.Unknown"})
    check_broker_change(CONFIG, IMAGE, "", {"metric.reporters": ""})


def test_connection_limits_must_be_positive() -> None:
    for key in ("max.connections", "max.connection.creation.rate"):
        assert "at least 1" in refusal("", {key: "0"})
        assert "1" in refusal("", {f"listener.name.plaintext.{key}": "0"})


@pytest.mark.parametrize("name", ["", "1"])
@pytest.mark.parametrize("is_tiered", ["true", "false"])
def test_local_retention_cannot_exceed_total_retention(name: str, is_tiered: str) -> None:
    config = BrokerConfig({"node.id": "1", "remote.log.storage.system.enable": is_tiered})
    allowed = {"log.retention.ms": "10", "log.local.retention.ms": "10"}
    assert is_accepted(config, name, allowed)
    for local in ("11", "-1"):
        refusal(name, {**allowed, "log.local.retention.ms": local}, config)
    refusal(name, {"log.retention.bytes": "10", "log.local.retention.bytes": "11"}, config)


def test_a_change_of_listeners_is_refused() -> None:
    config = BrokerConfig({"node.id": "1", "listeners": "PLAINTEXT://:9092"})
    check_broker_change(config, IMAGE, "1", {"listeners": " PLAINTEXT://:9092"})
    assert "PLAINTEXT://:9092" in refusal("1", {"listeners": "PLAINTEXT://:9093"}, config)


def test_configs_of_an_open_listener_are_not_changed() -> None:
    prefix = "listener.name.plaintext."
    changes = {"sasl.kerberos.kinit.cmd": "/bin/true", f"{prefix}ssl.keystore.location": "/nowhere"}
    check_broker_change(CONFIG, IMAGE, "1", changes)
    text = refusal("1", {**changes, f"{prefix}plain.sasl.jaas.config": "x"})
    assert "listener that is open" in text
    check_broker_change(CONFIG, IMAGE, "1", {f"{prefix}plain.sasl.jaas.config": "x"})
    check_broker_change(CONFIG, IMAGE, "1", {**changes, "listener.name.other.plain.sasl.jaas.config": "x"})
    node_config = BrokerConfig({"node.id": "1", f"{prefix}plain.sasl.jaas.config": "x"})
    check_broker_change(node_config, IMAGE, "1", changes)


SASL_PREFIX = "listener.name.clients."
USERS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_{}="secret";'
OWN_CREDENTIALS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="node" password="secret" user_node="secret";'
)
WITH_SASL = BrokerConfig(
    {
        "node.id": "1",
        "listeners": "PLAINTEXT://:9092,CLIENTS://:9093",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        f"{SASL_PREFIX}sasl.enabled.mechanisms": "PLAIN",
        f"{SASL_PREFIX}plain.sasl.jaas.config": USERS.format("alice"),
    }
)


@pytest.mark.parametrize(
    "changes",
    [
        {f"{SASL_PREFIX}plain.sasl.jaas.config": USERS.format("bob")},
        {f"{SASL_PREFIX}sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256"},
        {f"{SASL_PREFIX}plain.connections.max.reauth.ms": "5000"},
        {f"{SASL_PREFIX}plain.sasl.jaas.config": USERS.format("bob"), f"{SASL_PREFIX}max.connections": "50"},
        {"sasl.enabled.mechanisms": "SCRAM-SHA-256"},
    ],
    ids=["users", "mechanisms", "lifetime", "with another key of the listener", "without a prefix"],
)
def test_users_and_mechanisms_of_a_listener_with_sasl_may_change(changes: dict[str, str]) -> None:
    assert is_accepted(WITH_SASL, "1", changes)


BETWEEN_BROKERS = BrokerConfig(
    {
        **WITH_SASL.explicit,
        "inter.broker.listener.name": "CLIENTS",
        f"{SASL_PREFIX}sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        f"{SASL_PREFIX}plain.sasl.jaas.config": OWN_CREDENTIALS,
        f"{SASL_PREFIX}scram-sha-256.sasl.jaas.config": OWN_CREDENTIALS.replace("plain.Plain", "scram.Scram"),
    }
)


@pytest.mark.parametrize(
    "changes",
    [
        {"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"},
        {f"{SASL_PREFIX}plain.sasl.jaas.config": OWN_CREDENTIALS.replace("node", "other")},
        {"sasl.login.refresh.window.factor": "0.6"},
        {f"{SASL_PREFIX}oauthbearer.sasl.login.refresh.buffer.seconds": "10"},
    ],
)
def test_the_own_credentials_for_other_brokers_may_change(changes: dict[str, str]) -> None:
    assert is_accepted(BETWEEN_BROKERS, "1", changes)


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512"}, "needs it to connect to the other nodes"),
        ({"sasl.mechanism.inter.broker.protocol": "GSSAPI"}, "Kerberos is not supported"),
        ({f"{SASL_PREFIX}sasl.enabled.mechanisms": "SCRAM-SHA-256"}, "has only: SCRAM-SHA-256"),
        ({f"{SASL_PREFIX}plain.sasl.jaas.config": USERS.format("alice")}, "no username"),
    ],
)
def test_a_change_with_which_brokers_could_not_connect_to_each_other_is_refused(
    changes: dict[str, str], reason: str
) -> None:
    assert reason in refusal("1", changes, BETWEEN_BROKERS)


@pytest.mark.parametrize(
    "key",
    [
        "oauthbearer.sasl.oauthbearer.expected.audience",
        "oauthbearer.sasl.oauthbearer.jwks.endpoint.url",
        "oauthbearer.sasl.oauthbearer.client.credentials.client.secret",
        "oauthbearer.sasl.login.connect.timeout.ms",
        "sasl.server.max.receive.size",
        "sasl.mechanism.inter.broker.protocol",
    ],
)
def test_a_key_of_a_listener_that_has_an_effect_only_at_the_start_is_refused(key: str) -> None:
    text = refusal("1", {f"{SASL_PREFIX}{key}": "123"}, WITH_SASL)
    assert f"{SASL_PREFIX}{key}" in text and "cannot change for a listener that is open" in text
    assert "secret" not in key or "123" not in text
    # It may change for a listener that this broker does not have.
    check_broker_change(WITH_SASL, IMAGE, "1", {f"listener.name.other.{key}": "123"})


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({f"{SASL_PREFIX}plain.sasl.jaas.config": "canary"}, "[hidden]"),
        ({f"{SASL_PREFIX}sasl.enabled.mechanisms": "GSSAPI"}, "Kerberos is not supported"),
        ({f"{SASL_PREFIX}sasl.enabled.mechanisms": ""}, "allowed are: PLAIN"),
        ({f"{SASL_PREFIX}plain.connections.max.reauth.ms": "soon"}, "soon"),
        ({"sasl.jaas.config": USERS.format("canary")}, "listener.name.<listener>.<mechanism>"),
    ],
)
def test_a_change_with_which_no_client_could_authenticate_is_refused(
    changes: dict[str, str], reason: str
) -> None:
    text = refusal("1", changes, WITH_SASL)
    assert reason in text
    assert "canary" not in text


def test_the_protocol_of_an_open_listener_does_not_change() -> None:
    key = "listener.security.protocol.map"
    check_broker_change(CONFIG, IMAGE, "1", {key: "PLAINTEXT:PLAINTEXT,NEW:SSL"})
    for protocols in ("PLAINTEXT:SSL", "NEW:PLAINTEXT"):
        assert "PLAINTEXT" in refusal("1", {key: protocols})


def test_invalid_stored_configs_are_ignored_individually(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stored = {
        "num.io.threads": "12",
        "num.partitions": "7",
        "ssl.keystore.type": "PEM",
        "sasl.kerberos.service.name": "kafka",
        "log.retention.ms": "nonsense",
        "log.roll.ms": "70000",
    }
    delta, image = with_stored("", stored)
    usable = {"num.io.threads": "12", "log.roll.ms": "70000"}
    assert usable_configs(stored, of_one_broker=False) == usable
    assert usable_configs(stored, of_one_broker=True) == {**usable, "sasl.kerberos.service.name": "kafka"}
    dynamic = DynamicBrokerConfig(CONFIG)
    assert dynamic.apply(delta, image)
    assert dynamic.current.num_io_threads == 12
    assert dynamic.topic_defaults["segment.ms"] == "70000"
    assert dynamic.current.num_partitions == 1
    assert len(caplog.records) == 4


def test_inconsistent_stored_configs_do_not_affect_others() -> None:
    stored = {"num.io.threads": "12", "listener.name.elsewhere.max.connections": "0"}
    _, image = with_stored("1", stored)
    assert effective_config(CONFIG, image).num_io_threads == 12


def test_a_stored_config_that_contradicts_a_static_one_does_not_affect_others() -> None:
    """As a node of Apache Kafka accepts it: the error names the static config."""
    stored = {
        "num.io.threads": "12",
        f"{SASL_PREFIX}max.connections": "7",
        f"{SASL_PREFIX}sasl.enabled.mechanisms": "SCRAM-SHA-256",
    }
    _, image = with_stored("1", stored)
    effective = effective_config(BETWEEN_BROKERS, image)
    assert effective.num_io_threads == 12
    assert effective.explicit[f"{SASL_PREFIX}max.connections"] == "7"
    assert effective.explicit[f"{SASL_PREFIX}sasl.enabled.mechanisms"] == "PLAIN,SCRAM-SHA-256"


def test_a_listener_key_has_the_definition_of_its_general_key() -> None:
    assert broker_synonyms("listener.name.tls.ssl.keystore.type") == (
        "listener.name.tls.ssl.keystore.type",
        "ssl.keystore.type",
    )
    of_mechanism = broker_definition("listener.name.tls.plain.sasl.jaas.config")
    assert of_mechanism is not None and of_mechanism.is_sensitive
    assert broker_definition("listener.name.tls.unheard.of") is None
