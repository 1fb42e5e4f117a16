"""Admin calls about quotas, access control entries, features, elections and reassignments."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tidelog.clients.admin.admin import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclResourceType,
    Admin,
    ElectionType,
    PatternType,
    PermissionType,
    QuotaComponent,
    QuotaMatch,
    UpgradeType,
)
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.testing.embedded import EmbeddedCluster

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
CONFIG = {"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"}


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedCluster(config=CONFIG) as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
def name() -> str:
    return f"n-{uuid4().hex[:8]}"


def code(result: object) -> ErrorCode:
    assert isinstance(result, KafkaError), result
    return result.code


async def test_quotas_are_set_found_and_removed(servers: str, name: str) -> None:
    user = (("user", name),)
    both = (("client-id", None), ("user", name))
    async with Admin(servers) as admin:
        outcomes = await admin.alter_client_quotas(
            {user: {"producer_byte_rate": 1000.0}, both: {"request_percentage": 5.5}, (("user", ""),): {}}
        )
        assert (outcomes[user], outcomes[both]) == (None, None)
        assert code(outcomes[(("user", ""),)]) is ErrorCode.INVALID_REQUEST
        exact = QuotaComponent("user", QuotaMatch.EXACT, name)
        assert await admin.describe_client_quotas([exact]) == {
            user: {"producer_byte_rate": 1000.0},
            both: {"request_percentage": 5.5},
        }
        assert await admin.describe_client_quotas([exact], strict=True) == {
            user: {"producer_byte_rate": 1000.0}
        }
        await admin.alter_client_quotas({user: {"producer_byte_rate": None}}, validate_only=True)
        assert user in await admin.describe_client_quotas([exact])
        await admin.alter_client_quotas({user: {"producer_byte_rate": None}})
        assert user not in await admin.describe_client_quotas([exact])
        with pytest.raises(KafkaError):
            await admin.describe_client_quotas([exact, exact])


async def test_access_control_entries_are_added_found_and_removed(servers: str, name: str) -> None:
    principal = f"User:{name}"
    reader = AclBinding(AclResourceType.TOPIC, "tides", principal, AclOperation.READ)
    denied = AclBinding(
        AclResourceType.GROUP,
        "g",
        principal,
        AclOperation.ALL,
        PermissionType.DENY,
        "10.0.0.1",
        PatternType.PREFIXED,
    )
    async with Admin(servers) as admin:
        wrong = reader._replace(resource_name="")
        outcomes = await admin.create_acls([reader, denied, wrong])
        assert (outcomes[reader], outcomes[denied]) == (None, None)
        assert code(outcomes[wrong]) is ErrorCode.INVALID_REQUEST
        own = AclFilter(principal=principal)
        assert set(await admin.describe_acls(own)) == {reader, denied}
        about = AclFilter(
            principal=principal,
            resource_type=AclResourceType.GROUP,
            resource_name="gulls",
            pattern_type=PatternType.MATCH,
        )
        assert await admin.describe_acls(about) == [denied]
        assert await admin.delete_acls([about]) == {about: [denied]}
        assert await admin.describe_acls(own) == [reader]
        assert reader in await admin.describe_acls()


async def test_without_an_authorizer_acl_requests_are_refused() -> None:
    with EmbeddedCluster() as cluster:
        async with Admin(cluster.bootstrap_servers) as admin:
            entry = AclBinding(AclResourceType.TOPIC, "tides", "User:alice", AclOperation.READ)
            for result in (await admin.create_acls([entry]), await admin.delete_acls([AclFilter()])):
                assert [code(each) for each in result.values()] == [ErrorCode.SECURITY_DISABLED]
            with pytest.raises(KafkaError) as caught:
                await admin.describe_acls()
            assert caught.value.code is ErrorCode.SECURITY_DISABLED


async def test_features_are_described_and_changed() -> None:
    with EmbeddedCluster() as cluster:
        async with Admin(cluster.bootstrap_servers) as admin:
            features = await admin.describe_features()
            assert features.finalized["metadata.version"] == 30
            assert features.supported["transaction.version"] == (0, 2)
            assert features.supported["share.version"] == (0, 1)
            assert features.finalized["streams.version"] == 1
            assert features.epoch >= 0
            with pytest.raises(KafkaError) as caught:
                await admin.update_features({"transaction.version": 0})
            assert caught.value.code is ErrorCode.INVALID_UPDATE_VERSION
            down = UpgradeType.SAFE_DOWNGRADE
            await admin.update_features({"transaction.version": 0}, upgrade_type=down, validate_only=True)
            assert "transaction.version" in (await admin.describe_features()).finalized
            await admin.update_features({"transaction.version": 0}, upgrade_type=down)
            assert "transaction.version" not in (await admin.describe_features()).finalized


async def test_elections_and_reassignments_have_a_result_per_partition(servers: str, name: str) -> None:
    first, missing = TopicPartition(name, 0), TopicPartition(name, 9)
    async with Admin(servers) as admin:
        await admin.create_topic(name, num_partitions=1)
        elected = await admin.elect_leaders(ElectionType.PREFERRED, [first, missing])
        assert code(elected[first]) is ErrorCode.ELECTION_NOT_NEEDED
        assert code(elected[missing]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await admin.elect_leaders(ElectionType.UNCLEAN) == {}
        moved = await admin.alter_partition_reassignments({first: [1], missing: [1]})
        assert moved[first] is None
        assert code(moved[missing]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert code((await admin.alter_partition_reassignments({first: None}))[first]) is (
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        )
        assert await admin.list_partition_reassignments() == {}
        assert await admin.list_partition_reassignments([first]) == {}


async def test_brokers_are_described_and_unregistered(servers: str) -> None:
    async with Admin(servers) as admin:
        described = await admin.describe_cluster(include_fenced=True)
        assert [broker.node_id for broker in described.brokers] == [1]
        assert described.fenced == frozenset()
        with pytest.raises(KafkaError) as caught:
            await admin.unregister_broker(99)
        assert caught.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED
