"""Requests of a client with no, exactly the required, and denied permissions, to a running broker.

The connection of the client gets the principal User:alice; all other connections belong to a super user.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import pytest

from tests.support.messages.cluster_of_all_apis import (
    GROUP,
    TOPIC,
    ClusterFixture,
    error_codes,
    open_cluster,
    records,
)
from tests.support.messages.requests_of_all_apis import REQUESTS, TOKEN_APIS
from tests.support.messages.version_fields import fit_to_version
from tests.support.network.raw_client import RawClient
from tests.support.security.requirements import EVERYTHING, requirements
from tidelog.broker.node.node import BrokerNode
from tidelog.protocol.access_control import AclOperation, AclResourceType, PatternType, PermissionType
from tidelog.protocol.batch_builder import BatchBuilder, BatchProducer
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from tidelog.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from tidelog.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tidelog.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from tidelog.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from tidelog.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.protocol.registry import APIS, ApiKey, response_type
from tidelog.storage.config.restored_topic import RestoredTopic

ALICE = "User:alice"
ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY
TOPIC_TYPE, GROUP_TYPE = AclResourceType.TOPIC, AclResourceType.GROUP
AUTHORIZATION_CODES = {code for code in ErrorCode if code.name.endswith("_AUTHORIZATION_FAILED")}
# Their responses have no error. They contain only what the client may describe.
WITHOUT_ERROR = {ApiKey.DESCRIBE_CLUSTER, ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS}


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterFixture]:
    with open_cluster() as cluster:
        yield cluster


@pytest.fixture
def admin(cluster: ClusterFixture) -> Iterator[RawClient]:
    with cluster.client() as client:
        remove_entries(client)
        yield client
        remove_entries(client)


@pytest.fixture
def alice(cluster: ClusterFixture) -> Iterator[RawClient]:
    with client_of_alice(cluster) as client:
        yield client


@contextmanager
def client_of_alice(cluster: ClusterFixture) -> Iterator[RawClient]:
    with cluster.client() as client:
        client.send_request(MetadataRequest(topics=()), 12, MetadataResponse)
        own = "{}:{}".format(*client.local_address)

        def authenticate(node: BrokerNode) -> int:
            assert node._broker is not None
            connections = [each for each in node._broker.network.server.connections() if each.peer == own]
            for connection in connections:
                connection.client.on_authenticated(ALICE)
            return len(connections)

        assert cluster.cluster.run(authenticate) == 1
        yield client


def create(
    admin: RawClient,
    *wanted: tuple[AclResourceType, AclOperation],
    permission: PermissionType = ALLOW,
    name: str = "*",
) -> None:
    response = admin.send_request(
        CreateAclsRequest(
            creations=tuple(
                AclCreation(
                    resource_type=kind,
                    resource_name="kafka-cluster" if kind == AclResourceType.CLUSTER else name,
                    resource_pattern_type=PatternType.LITERAL,
                    principal=ALICE,
                    host="*",
                    operation=operation,
                    permission_type=permission,
                )
                for kind, operation in wanted
            )
        ),
        3,
        CreateAclsResponse,
    )
    assert {result.error_code for result in response.results} <= {0}


def remove_entries(admin: RawClient) -> None:
    everything = DeleteAclsFilter(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    admin.send_request(DeleteAclsRequest(filters=(everything,)), 3, DeleteAclsResponse)


def codes(cluster: ClusterFixture, client: RawClient, key: ApiKey) -> set[ErrorCode]:
    version = APIS[key].highest
    request = fit_to_version(REQUESTS[key](cluster, version), version)
    response = client.send_request(request, version, response_type(key))
    return {ErrorCode(code) for code in error_codes(response)} & AUTHORIZATION_CODES


# Delegation tokens need an authenticated connection: tests/interop/test_delegation_tokens.py.
@pytest.mark.parametrize("key", [key for key in REQUESTS if key not in TOKEN_APIS], ids=lambda key: key.name)
def test_a_client_needs_exactly_the_operations_of_the_table(
    cluster: ClusterFixture, admin: RawClient, alice: RawClient, key: ApiKey
) -> None:
    wanted = {(row.resource_type, row.operation) for row in requirements(key)}
    has_error = bool(wanted) and key not in WITHOUT_ERROR
    if has_error:
        assert codes(cluster, alice, key), "without permission"
    create(admin, *wanted)
    assert not codes(cluster, alice, key), "with exactly the required permission"
    create(admin, *EVERYTHING)
    others = {
        (row.resource_type, row.alternative) for row in requirements(key) if row.alternative is not None
    }
    create(admin, *wanted, *others, permission=DENY)
    if has_error:
        assert codes(cluster, alice, key), "with a denial"


def produce_to(*topics: str) -> ProduceRequest:
    return ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=tuple(
            TopicProduceData(name=name, partition_data=(PartitionProduceData(index=0, records=records()),))
            for name in topics
        ),
    )


def test_records_for_topics_without_permission_are_rejected_and_the_others_are_appended(
    admin: RawClient, alice: RawClient
) -> None:
    topics = tuple(CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("p1", "p2"))
    admin.send_request(CreateTopicsRequest(topics=topics), 7, CreateTopicsResponse)
    create(admin, (TOPIC_TYPE, AclOperation.WRITE), name="p1")
    response = alice.send_request(produce_to("p1", "p2", "none"), 9, ProduceResponse)
    codes_by_topic = {topic.name: topic.partition_responses[0].error_code for topic in response.responses}
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert codes_by_topic == {"p1": ErrorCode.NONE, "p2": denied, "none": denied}


@pytest.mark.parametrize("transactional_id", [None, "alices"])
def test_transactional_records_need_permission_for_the_transactional_id_cve_2018_17196(
    admin: RawClient, alice: RawClient, transactional_id: str | None
) -> None:
    create(admin, (TOPIC_TYPE, AclOperation.ALL))
    builder = BatchBuilder(
        producer=BatchProducer(producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    )
    builder.append(1, b"key", b"value")
    partition = PartitionProduceData(index=0, records=bytes(builder.build()))
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=1000,
        topic_data=(TopicProduceData(name=TOPIC, partition_data=(partition,)),),
    )
    response = alice.send_request(request, 9, ProduceResponse)
    code = response.responses[0].partition_responses[0].error_code
    assert code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_client_cannot_fetch_as_a_replica_cve_2018_1288(
    cluster: ClusterFixture, admin: RawClient, alice: RawClient
) -> None:
    create(admin, (TOPIC_TYPE, AclOperation.ALL))
    partition = FetchPartition(partition=0, partition_max_bytes=10_000)
    request = FetchRequest(
        replica_state=ReplicaState(replica_id=2, replica_epoch=-1),
        max_bytes=10_000,
        topics=(FetchTopic(topic_id=cluster.topic_id, partitions=(partition,)),),
    )
    response = alice.send_request(request, 17, FetchResponse)
    assert [(each.error_code, each.aborted_transactions) for each in response.responses[0].partitions] == [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ())
    ]


def test_metadata_by_id_denies_a_topic_without_its_name_as_in_kafka(
    cluster: ClusterFixture, alice: RawClient
) -> None:
    ids = (cluster.topic_id, UUID(int=12345))
    request = MetadataRequest(topics=tuple(MetadataRequestTopic(topic_id=each, name=None) for each in ids))
    codes_by_topic = alice.send_request(request, 12, MetadataResponse).topics
    assert [(each.error_code, each.name, each.topic_id) for each in codes_by_topic] == [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, cluster.topic_id),
        (ErrorCode.UNKNOWN_TOPIC_ID, None, UUID(int=12345)),
    ]


def test_topics_that_a_client_may_not_describe_look_like_missing_ones(
    cluster: ClusterFixture, admin: RawClient, alice: RawClient
) -> None:
    names = tuple(MetadataRequestTopic(name=name) for name in (TOPIC, "missing"))
    response = alice.send_request(MetadataRequest(topics=names), 12, MetadataResponse)
    assert [topic.error_code for topic in response.topics] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 2
    assert {topic.topic_id.int for topic in response.topics} == {0}
    assert alice.send_request(MetadataRequest(topics=None), 12, MetadataResponse).topics == ()
    described = alice.send_request(
        DescribeTopicPartitionsRequest(topics=(TopicRequest(name=TOPIC), TopicRequest(name="missing"))),
        0,
        DescribeTopicPartitionsResponse,
    )
    assert [topic.error_code for topic in described.topics] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 2
    listed = alice.send_request(DescribeTopicPartitionsRequest(), 0, DescribeTopicPartitionsResponse)
    assert (listed.topics, listed.next_cursor) == ((), None)


def test_a_topic_is_created_automatically_only_with_permission(admin: RawClient, alice: RawClient) -> None:
    request = MetadataRequest(
        topics=(MetadataRequestTopic(name="automatic"),), allow_auto_topic_creation=True
    )
    create(admin, (TOPIC_TYPE, AclOperation.DESCRIBE))
    denied = alice.send_request(request, 12, MetadataResponse).topics[0]
    assert denied.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    create(admin, (TOPIC_TYPE, AclOperation.CREATE), name="automatic")
    allowed = alice.send_request(request, 12, MetadataResponse).topics[0]
    assert allowed.error_code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE)


def test_a_restored_topic_needs_the_permission_to_alter_the_cluster(
    admin: RawClient, alice: RawClient
) -> None:
    identity = RestoredTopic(topic_id=UUID(int=4711), leader_epoch=5, next_producer_id=10**6)
    configs = tuple(CreatableTopicConfig(name=key, value=text) for key, text in identity.configs.items())
    topic = CreatableTopic(name="restored", num_partitions=1, replication_factor=1, configs=configs)
    request = CreateTopicsRequest(topics=(topic,))
    create(admin, (TOPIC_TYPE, AclOperation.ALL), (AclResourceType.CLUSTER, AclOperation.CREATE))
    denied = alice.send_request(request, 7, CreateTopicsResponse).topics[0]
    assert (denied.error_code, denied.topic_id.int) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 0)
    create(admin, (AclResourceType.CLUSTER, AclOperation.ALTER))
    created = alice.send_request(request, 7, CreateTopicsResponse).topics[0]
    assert (created.error_code, created.topic_id) == (ErrorCode.NONE, identity.topic_id)


def test_only_groups_and_offsets_that_a_client_may_describe_are_listed(
    cluster: ClusterFixture, admin: RawClient, alice: RawClient
) -> None:
    assert alice.send_request(ListGroupsRequest(), 4, ListGroupsResponse).groups == ()
    create(admin, (GROUP_TYPE, AclOperation.DESCRIBE), name=GROUP)
    listed = alice.send_request(ListGroupsRequest(), 4, ListGroupsResponse).groups
    assert [group.group_id for group in listed] == [GROUP]
    every_topic = OffsetFetchRequest(
        groups=(
            OffsetFetchRequestGroup(group_id=GROUP, topics=None),
            OffsetFetchRequestGroup(group_id="other", topics=None),
        )
    )
    response = alice.send_request(every_topic, 9, OffsetFetchResponse)
    assert [group.error_code for group in response.groups] == [
        ErrorCode.NONE,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ]
    assert response.groups[0].topics == ()


def test_authorized_operations_are_those_of_the_client(admin: RawClient, alice: RawClient) -> None:
    request = MetadataRequest(
        topics=(MetadataRequestTopic(name=TOPIC),), include_topic_authorized_operations=True
    )
    create(admin, (TOPIC_TYPE, AclOperation.READ))
    topic = alice.send_request(request, 12, MetadataResponse).topics[0]
    assert topic.topic_authorized_operations == 1 << AclOperation.READ | 1 << AclOperation.DESCRIBE
    cluster = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert alice.send_request(cluster, 1, DescribeClusterResponse).cluster_authorized_operations == 0
