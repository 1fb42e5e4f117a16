"""Admin requests of third-party clients to brokers that are not the active controller."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, cast
from uuid import uuid4

import pytest
from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka import KafkaAdminClient

from tests.support.nodes.three_nodes import ThreeNodes
from tests.support.waiting import TIMEOUT_S, wait_until
from tidelog.cluster.image import MetadataImage
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
CONFIG = {"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"}
Scram = ScramMechanism


@pytest.fixture(scope="module")
def three() -> Iterator[ThreeNodes]:
    with EmbeddedCluster(nodes=3, config=CONFIG) as cluster:
        nodes = ThreeNodes(cluster)
        wait_until(lambda: nodes.brokers() == {1, 2, 3} and nodes.controller() is not None)
        yield nodes


@pytest.fixture
def follower(three: ThreeNodes) -> int:
    """Return a node that is not the active controller."""
    return min({1, 2, 3} - {three.wait_for_controller()})


@pytest.fixture
def admin(three: ThreeNodes, follower: int) -> AdminClient:
    """Return librdkafka's admin client, which knows only that node at first."""
    return three.admin(follower)


@pytest.fixture
def name() -> str:
    return f"name-{uuid4().hex[:8]}"


def image(three: ThreeNodes, node_id: int) -> MetadataImage:
    return three.cluster.run(lambda node: node.services.image(), node_id)


def results_of(futures: Mapping[Any, Future[Any]]) -> list[Any]:
    return [future.result(TIMEOUT_S) for future in futures.values()]


def refusal(future: object) -> int:
    with pytest.raises(KafkaException) as refused:
        future.result(TIMEOUT_S)  # type: ignore[attr-defined]
    error = refused.value.args[0]
    assert isinstance(error, KafkaError)
    return error.code()


def test_topics_are_created_extended_configured_and_deleted(
    three: ThreeNodes, admin: AdminClient, name: str
) -> None:
    results_of(admin.create_topics([NewTopic(name, 2, 3)]))
    assert refusal(admin.create_topics([NewTopic(name, 2, 3)])[name]) == KafkaError.TOPIC_ALREADY_EXISTS
    results_of(admin.create_partitions([NewPartitions(name, 4)]))
    setting = ConfigEntry("retention.ms", "60000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[setting])
    results_of(admin.incremental_alter_configs([resource]))
    wrong = ConfigEntry("retention.ms", "a while", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[wrong])
    assert refusal(admin.incremental_alter_configs([resource])[resource]) == KafkaError.INVALID_CONFIG
    wait_until(
        lambda: all(
            image(three, each).topic_configs(name) == {"retention.ms": "60000"}
            and len(image(three, each).topics_by_name[name].partitions) == 4
            for each in (1, 2, 3)
        )
    )
    results_of(admin.delete_topics([name]))
    wait_until(lambda: all(name not in image(three, each).topics_by_name for each in (1, 2, 3)))


def test_a_broker_validates_its_own_configs(three: ThreeNodes, admin: AdminClient, follower: int) -> None:
    def change(broker: str, key: str, value: str) -> object:
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.BROKER, broker, incremental_configs=[entry])
        return admin.incremental_alter_configs([resource])[resource]

    change(str(follower), "background.threads", "11").result(TIMEOUT_S)  # type: ignore[attr-defined]
    assert refusal(change(str(follower), "node.id", "9")) == KafkaError.INVALID_REQUEST
    other = min({1, 2, 3} - {follower})
    change(str(other), "background.threads", "12").result(TIMEOUT_S)  # type: ignore[attr-defined]
    wait_until(
        lambda: (
            image(three, follower).broker_configs(other) == {"background.threads": "12"}
            and image(three, other).broker_configs(follower) == {"background.threads": "11"}
        )
    )


def test_access_control_entries_are_the_same_on_every_broker(
    three: ThreeNodes, admin: AdminClient, name: str
) -> None:
    binding = AclBinding(
        ResourceType.TOPIC,
        name,
        ResourcePatternType.PREFIXED,
        "User:alice",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    everything = AclBindingFilter(
        ResourceType.TOPIC,
        name,
        ResourcePatternType.ANY,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    results_of(admin.create_acls([binding]))
    for each in (1, 2, 3):
        wait_until(lambda: _names(three.admin(each), everything) == [name])  # noqa: B023
    [removed] = results_of(admin.delete_acls([everything]))
    assert [each.name for each in removed] == [name]
    assert _names(three.admin(three.wait_for_controller()), everything) == []


def _names(admin: AdminClient, entries: AclBindingFilter) -> list[str]:
    return [binding.name for binding in admin.describe_acls(entries).result(TIMEOUT_S)]


def test_scram_credentials_are_the_same_on_every_broker(
    three: ThreeNodes, admin: AdminClient, name: str
) -> None:
    info = ScramCredentialInfo(Scram.SCRAM_SHA_256, 8192)
    results_of(admin.alter_user_scram_credentials([UserScramCredentialUpsertion(name, info, b"secret")]))
    weak = ScramCredentialInfo(Scram.SCRAM_SHA_256, 100)
    upsertion = UserScramCredentialUpsertion(f"{name}-weak", weak, b"secret")
    assert refusal(admin.alter_user_scram_credentials([upsertion])[f"{name}-weak"]) == 93
    for each in (1, 2, 3):
        wait_until(lambda: (name, 1) in image(three, each).scram_credentials)  # noqa: B023
        other_admin = three.admin(each)
        futures = cast(dict[str, Future[Any]], other_admin.describe_user_scram_credentials([name]))
        description = futures[name].result(TIMEOUT_S)
        assert [info.iterations for info in description.scram_credential_infos] == [8192]
    deletion = UserScramCredentialDeletion(name, Scram.SCRAM_SHA_256)
    results_of(admin.alter_user_scram_credentials([deletion]))
    assert refusal(admin.alter_user_scram_credentials([deletion])[name]) == 91


def test_leaders_are_elected_through_any_broker(three: ThreeNodes, admin: AdminClient, name: str) -> None:
    results_of(admin.create_topics([NewTopic(name, 3, 3)]))
    three.wait_until_whole(name)
    partitions = [TopicPartition(name, index) for index in range(3)]
    elected = admin.elect_leaders(ElectionType.PREFERRED, partitions).result(TIMEOUT_S)
    assert {error.code() for error in elected.values()} == {KafkaError.ELECTION_NOT_NEEDED}


def test_every_broker_returns_an_unfenced_broker_as_controller(three: ThreeNodes) -> None:
    for each in (1, 2, 3):
        other_admin = three.admin(each)
        description = other_admin.describe_cluster().result(TIMEOUT_S)
        assert description.controller.id in {1, 2, 3}
        assert {node.id for node in description.nodes} == {1, 2, 3}


def test_kafka_python_reassigns_elects_and_changes_features(
    three: ThreeNodes, follower: int, name: str
) -> None:
    admin = KafkaAdminClient(bootstrap_servers=three.servers.split(",")[follower - 1])
    try:
        admin.create_topics({name: {"num_partitions": 1, "replication_factor": 1}})
        wait_until(lambda: name in image(three, follower).topics_by_name)
        [replica] = three.partition(name, node_id=follower).replicas
        [target] = [each for each in (1, 2, 3) if each != replica][:1]
        admin.alter_partition_reassignments({_partition(name): [target]})
        wait_until(lambda: three.partition(name, node_id=follower).replicas == (target,))
        assert three.partition(name, node_id=follower).leader == target
        assert admin.list_partition_reassignments() == {}
        admin.delete_topics([name])
    finally:
        admin.close()


def _partition(name: str) -> object:
    from kafka import TopicPartition as Partition

    return Partition(name, 0)


def test_admin_requests_during_a_controller_failure_are_completed_once(name: str) -> None:
    with EmbeddedCluster(nodes=3) as cluster:
        three = ThreeNodes(cluster)
        wait_until(lambda: three.brokers() == {1, 2, 3})
        controller = three.wait_for_controller()
        followers = sorted({1, 2, 3} - {controller})
        names = [f"{name}-{number}" for number in range(40)]

        def create(number: int) -> int:
            """Return the error code of one creation."""
            admin = three.admin(followers[number % 2])
            future = admin.create_topics([NewTopic(names[number], 1, 1)], request_timeout=20.0)[names[number]]
            if number == 10:
                cluster.kill_node(controller)
            try:
                future.result(TIMEOUT_S)
                return 0
            except KafkaException as error:
                code: int = error.args[0].code()
                return code

        with ThreadPoolExecutor(8) as pool:
            codes = list(pool.map(create, range(len(names))))
        # A topic that the former controller created without responding exists when the request is repeated.
        assert set(codes) <= {0, KafkaError.TOPIC_ALREADY_EXISTS}
        for each in followers:
            wait_until(lambda: set(names) <= set(image(three, each).topics_by_name))  # noqa: B023


def test_topics_created_through_another_broker_are_described(
    three: ThreeNodes, admin: AdminClient, follower: int, name: str
) -> None:
    leader = three.admin(three.wait_for_controller())
    results_of(leader.create_topics([NewTopic(name, 1, 3)]))
    wait_until(lambda: name in image(three, follower).topics_by_name)
    description = admin.describe_topics(TopicCollection([name]))[name].result(TIMEOUT_S)
    assert len(description.partitions) == 1
