"""Topics, partitions, configs, records, groups and the cluster through each client's admin interface."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import cast
from uuid import uuid4

import pytest
from kafka import KafkaAdminClient
from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType

from tests.support.foreign_clients import CLIENTS, ForeignAdmin, ForeignClient, ForeignError, Message
from tests.support.foreign_clients.client_factory import ClientFactory
from tests.support.foreign_clients.interface import GroupAdmin, read_exactly
from tests.support.waiting import wait_until
from tidelog.protocol.errors import ErrorCode
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop

# aiokafka can neither request defaults, nor alter one key only, nor write or delete a group's offsets.
ABLE = ["confluent", "kafka_python", "tidelog"]


@pytest.fixture
def admin(client: ForeignClient, client_factory: ClientFactory) -> ForeignAdmin:
    """Return the admin interface of each client, one after the other."""
    return client_factory.admin(client)


@pytest.fixture(params=ABLE)
def able_admin(request: pytest.FixtureRequest, client_factory: ClientFactory) -> GroupAdmin:
    """Return the admin interface of each client that supports more, one after the other."""
    return cast(GroupAdmin, client_factory.admin(CLIENTS[request.param]))


@pytest.fixture
def name() -> str:
    """Return an unused name."""
    return f"name-{uuid4().hex[:10]}"


def expect_error(action: Callable[[], object]) -> ErrorCode:
    """Return the error code of a refused action."""
    with pytest.raises(ForeignError) as refusal:
        action()
    return ErrorCode(refusal.value.code)


# ---- topics


def test_a_topic_is_created_listed_described_and_deleted(admin: ForeignAdmin, name: str) -> None:
    admin.create_topic(name, 3, {"retention.ms": "3600000"})
    assert name in admin.topics()
    assert admin.partition_leaders(name) == {0: 1, 1: 1, 2: 1}
    assert admin.config(name)["retention.ms"] == "3600000"
    admin.delete_topic(name)
    wait_until(lambda: name not in admin.topics(), "end of the topic")
    admin.create_topic(name, 1)
    assert admin.partition_leaders(name) == {0: 1}
    assert admin.config(name)["retention.ms"] == "604800000"


def test_minus_one_uses_the_broker_defaults(able_admin: GroupAdmin, name: str) -> None:
    able_admin.create_topic(name, -1, replication=-1)
    assert set(able_admin.partition_leaders(name)) == {0, 1, 2}


def test_an_existing_topic_is_refused(admin: ForeignAdmin, topic: str) -> None:
    assert expect_error(lambda: admin.create_topic(topic)) is ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize(
    "bad_name", ["", ".", "..", "with space", "a/b", "x" * 250], ids=lambda bad_name: bad_name[:10] or "empty"
)
def test_an_invalid_name_is_refused(admin: ForeignAdmin, bad_name: str) -> None:
    assert expect_error(lambda: admin.create_topic(bad_name)) is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_an_invalid_topic_is_refused(admin: ForeignAdmin, name: str) -> None:
    assert expect_error(lambda: admin.create_topic(name, 0)) is ErrorCode.INVALID_PARTITIONS
    assert (
        expect_error(lambda: admin.create_topic(name, 1, replication=3))
        is ErrorCode.INVALID_REPLICATION_FACTOR
    )
    bad_value = {"retention.ms": "soon"}
    assert expect_error(lambda: admin.create_topic(name, 1, bad_value)) is ErrorCode.INVALID_CONFIG
    unknown_key = {"no.such.key": "1"}
    assert expect_error(lambda: admin.create_topic(name, 1, unknown_key)) is ErrorCode.INVALID_CONFIG
    assert name not in admin.topics()


def test_validate_only_creates_nothing(admin: ForeignAdmin, name: str) -> None:
    admin.create_topic(name, 2, validate_only=True)
    assert name not in admin.topics()


def test_an_unknown_topic_cannot_be_deleted(admin: ForeignAdmin, name: str) -> None:
    assert expect_error(lambda: admin.delete_topic(name)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_partitions_are_added_and_cannot_be_removed(admin: ForeignAdmin, topic: str) -> None:
    admin.add_partitions(topic, 4)
    assert set(admin.partition_leaders(topic)) == {0, 1, 2, 3}
    assert expect_error(lambda: admin.add_partitions(topic, 2)) is ErrorCode.INVALID_PARTITIONS
    assert (
        expect_error(lambda: admin.add_partitions("no-such-topic", 9)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


def test_many_partitions_are_created_and_described(admin: ForeignAdmin, name: str) -> None:
    admin.create_topic(name, 120)
    assert admin.partition_leaders(name) == dict.fromkeys(range(120), 1)


# ---- configs


def test_a_changed_config_applies_at_once(
    client: ForeignClient, topic: str, client_factory: ClientFactory
) -> None:
    admin = client_factory.admin(client)
    assert admin.config(topic)["max.message.bytes"] == "1048588"
    admin.set_config(topic, "max.message.bytes", "1000")
    assert admin.config(topic)["max.message.bytes"] == "1000"
    producer = client_factory.producer(client)
    producer.send(topic, [Message(b"x" * 2000)])
    assert expect_error(producer.flush) is ErrorCode.MESSAGE_TOO_LARGE


def test_an_invalid_config_is_refused_and_changes_nothing(admin: ForeignAdmin, topic: str) -> None:
    assert expect_error(lambda: admin.set_config(topic, "segment.bytes", "1")) is ErrorCode.INVALID_CONFIG
    assert expect_error(lambda: admin.set_config(topic, "no.such.key", "1")) is ErrorCode.INVALID_CONFIG
    assert admin.config(topic)["segment.bytes"] == "1073741824"


def test_single_keys_are_set_appended_to_and_reset(able_admin: GroupAdmin, topic: str) -> None:
    able_admin.set_config(topic, "retention.ms", "1000")
    able_admin.set_config(topic, "segment.ms", "2000")
    able_admin.append_config(topic, "cleanup.policy", "compact")
    config = able_admin.config(topic)
    assert (config["retention.ms"], config["segment.ms"]) == ("1000", "2000")
    assert set(config["cleanup.policy"].split(",")) == {"delete", "compact"}
    able_admin.subtract_config(topic, "cleanup.policy", "delete")
    able_admin.unset_config(topic, "retention.ms")
    config = able_admin.config(topic)
    assert config["cleanup.policy"] == "compact"
    assert (config["retention.ms"], config["segment.ms"]) == ("604800000", "2000")


def test_the_broker_returns_its_configs(admin: ForeignAdmin) -> None:
    config = admin.broker_config(1)
    assert config["num.partitions"] == "3"
    assert config["node.id"] == "1"
    assert len(config) > 200


@pytest.mark.parametrize(
    ("key", "value"),
    [("sasl.kerberos.service.name", "kafka"), ("ssl.client.auth", "required"), ("num.io.threads", "9")],
)
def test_a_broker_takes_security_keys_without_the_prefix_of_a_listener(
    admin: ForeignAdmin, key: str, value: str
) -> None:
    admin.set_broker_config(1, key, value)
    assert admin.broker_config(1)[key] == value


def test_ten_security_keys_need_the_prefix_of_a_listener(admin: ForeignAdmin) -> None:
    key, value = "ssl.keystore.location", "/nowhere"
    assert expect_error(lambda: admin.set_broker_config(1, key, value)) is ErrorCode.INVALID_REQUEST
    admin.set_broker_config(1, f"listener.name.tls.{key}", value)


def test_kafka_python_describes_and_alters_the_loggers_of_a_broker(cluster: EmbeddedCluster) -> None:
    logger = logging.getLogger("tests.of.kafka.python")
    kind = ConfigResourceType.BROKER_LOGGER
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    try:
        change = {logger.name: (AlterConfigOp.SET, "ERROR")}
        assert client.alter_configs([ConfigResource(kind, "1", change)]) == {"broker_logger": {"1": "OK"}}
        assert logger.level == logging.ERROR
        (entries,) = client.describe_configs([ConfigResource(kind, "1")], config_filter="all").values()
        assert entries["1"][logger.name]["value"] == "ERROR"
    finally:
        logger.setLevel(logging.NOTSET)
        client.close()


def test_configs_survive_a_restart(name: str) -> None:
    with EmbeddedCluster() as cluster:
        client_factory = ClientFactory(cluster.bootstrap_servers)
        client_factory.admin(CLIENTS["confluent"]).create_topic(name, 2, {"retention.ms": "5000"})
        cluster.restart(clean=False)
        other_admin = client_factory.admin(CLIENTS["kafka_python"])
        assert other_admin.config(name)["retention.ms"] == "5000"
        assert set(other_admin.partition_leaders(name)) == {0, 1}
        client_factory.close()


# ---- records


def test_records_are_deleted_up_to_an_offset(
    client: ForeignClient, admin: ForeignAdmin, topic: str, client_factory: ClientFactory
) -> None:
    client_factory.produce(client, topic, [Message(b"%d" % number) for number in range(20)])
    assert admin.delete_records(topic, 0, 5) == 5
    assert [one.offset for one in client_factory.consume(client, topic, 15)] == list(range(5, 20))
    assert expect_error(lambda: admin.delete_records(topic, 0, 21)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert admin.delete_records(topic, 0, 20) == 20


# ---- groups


@pytest.fixture
def group_with_offsets(topic: str, name: str, client_factory: ClientFactory) -> Iterator[str]:
    """Create a group that has read ten messages, committed, and has no members any more."""
    client_factory.produce(CLIENTS["confluent"], topic, [Message(b"%d" % number) for number in range(10)])
    member = client_factory.consumer(CLIENTS["tidelog"], group=name, client_id="reader")
    member.subscribe(topic)
    read_exactly(member, 10)
    member.commit(topic, {0: 10})
    client_factory.close_early(member)
    yield name


def test_a_group_is_listed_and_described(
    client: ForeignClient, admin: ForeignAdmin, topic: str, name: str, client_factory: ClientFactory
) -> None:
    client_factory.produce(client, topic, [Message(b"v")])
    member = client_factory.consumer(client, group=name, client_id="reader")
    member.subscribe(topic)
    read_exactly(member, 1)
    assert name in admin.groups()
    view = admin.describe_group(name)
    assert (view.state, view.clients) == ("stable", ("reader",))
    client_factory.close_early(member)
    wait_until(lambda: admin.describe_group(name).state == "empty", "end of membership")


def test_the_offsets_of_a_group_are_reported(
    admin: ForeignAdmin, group_with_offsets: str, topic: str
) -> None:
    assert admin.group_offsets(group_with_offsets) == {(topic, 0): 10}


def test_the_offsets_of_a_group_are_altered(
    able_admin: GroupAdmin, group_with_offsets: str, topic: str, client_factory: ClientFactory
) -> None:
    able_admin.set_group_offset(group_with_offsets, topic, 0, 3)
    assert able_admin.group_offsets(group_with_offsets) == {(topic, 0): 3}
    member = client_factory.consumer(CLIENTS["aiokafka"], group=group_with_offsets)
    member.subscribe(topic)
    assert [one.offset for one in read_exactly(member, 7)] == list(range(3, 10))


def test_a_group_with_members_is_neither_altered_nor_deleted(
    able_admin: GroupAdmin, topic: str, name: str, client_factory: ClientFactory
) -> None:
    client_factory.produce(CLIENTS["confluent"], topic, [Message(b"v")])
    member = client_factory.consumer(CLIENTS["confluent"], group=name)
    member.subscribe(topic)
    read_exactly(member, 1)
    assert expect_error(lambda: able_admin.set_group_offset(name, topic, 0, 0)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert expect_error(lambda: able_admin.delete_group(name)) is ErrorCode.NON_EMPTY_GROUP


def test_a_group_is_deleted_with_its_offsets(able_admin: GroupAdmin, group_with_offsets: str) -> None:
    able_admin.delete_group(group_with_offsets)
    assert group_with_offsets not in able_admin.groups()
    assert able_admin.group_offsets(group_with_offsets) == {}
    assert expect_error(lambda: able_admin.delete_group(group_with_offsets)) is ErrorCode.GROUP_ID_NOT_FOUND


# ---- cluster


def test_the_cluster_is_described(admin: ForeignAdmin, cluster: EmbeddedCluster) -> None:
    cluster_id, brokers = admin.cluster()
    assert brokers == {1}
    assert cluster_id == cluster.run(lambda node: node.services.store.image.cluster_id)


def test_log_directories_are_described(
    topic: str, client_factory: ClientFactory, cluster: EmbeddedCluster
) -> None:
    client_factory.produce(CLIENTS["confluent"], topic, [Message(b"x" * 5000)])
    # Of the third-party clients only kafka-python requests them.
    client = KafkaAdminClient(bootstrap_servers=client_factory.servers)
    (broker,) = client.describe_log_dirs()
    (directory,) = broker["log_dirs"]
    sizes = {
        (entry["name"], partition["partition_index"]): partition["partition_size"]
        for entry in directory["topics"]
        for partition in entry["partitions"]
    }
    assert directory["log_dir"] == str(cluster.data_dir)
    assert 5000 < sizes[topic, 0] < 6000
    client.close()
