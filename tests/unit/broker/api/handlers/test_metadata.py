"""Metadata requests in every version, and the described brokers and partitions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

import pytest

from tests.support.messages.request_contexts import over_the_wire, request_context
from tests.support.metadata.images import (
    CLUSTER_ID,
    creatable,
    image_after_records,
    image_with_brokers,
    with_topics,
)
from tests.support.security.authorizers import ALLOW_EVERYTHING
from tidelog.broker.api.handlers.metadata import MetadataHandler
from tidelog.broker.network.request_context import RequestContext
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.protocol.metadata_records.fence_broker_record import FenceBrokerRecord
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from tidelog.protocol.metadata_records.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from tidelog.protocol.metadata_records.unregister_broker_record import UnregisterBrokerRecord
from tidelog.protocol.schema import ZERO_UUID, MetadataRecord
from tidelog.protocol.steps import run_steps

IMAGE = with_topics(
    image_with_brokers(1, 2, 3),
    creatable("orders", 2, 2),
    creatable("users"),
    creatable("__consumer_offsets"),
)
ORDERS = IMAGE.topics_by_name["orders"].id


class RecordedCreation:
    """Records the topics whose creation is requested."""

    def __init__(self) -> None:
        self.requested_names: list[str] = []

    def request(self, names: Iterable[str], client: RequestContext) -> dict[str, ErrorCode]:
        assert client.principal
        self.requested_names += names
        return {
            name: ErrorCode.INVALID_TOPIC_EXCEPTION if " " in name else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for name in self.requested_names
        }


def request_metadata(
    version: int,
    *names: str | None,
    ids: tuple[UUID, ...] = (),
    image: MetadataImage = IMAGE,
    creation: RecordedCreation | None = None,
    everything: bool = False,
    listener: str = "PLAINTEXT",
    **flags: bool,
) -> MetadataResponse:
    topics = tuple(MetadataRequestTopic(name=name) for name in names)
    topics += tuple(MetadataRequestTopic(name=None, topic_id=each) for each in ids)
    request = MetadataRequest(topics=None if everything else topics, **flags)
    handler = MetadataHandler(lambda: image, 1, creation, ALLOW_EVERYTHING)
    context = request_context(version, listener=listener)
    response = run_steps(handler.handle(context, over_the_wire(request, version)))
    return over_the_wire(response, version)


def codes(response: MetadataResponse) -> dict[str | None, int]:
    return {topic.name: topic.error_code for topic in response.topics}


def image_after(*records: MetadataRecord) -> MetadataImage:
    return image_after_records(records, IMAGE)


@pytest.mark.parametrize("version", range(14))
def test_every_version_returns_brokers_and_partitions(version: int) -> None:
    response = request_metadata(version, "orders")
    assert [(broker.node_id, broker.host, broker.port) for broker in response.brokers] == [
        (1, "host1", 9093),
        (2, "host2", 9094),
        (3, "host3", 9095),
    ]
    assert {broker.rack for broker in response.brokers} == (
        {None} if version < 1 else {"rack1", "rack2", "rack3"}
    )
    assert response.cluster_id == (CLUSTER_ID if version >= 2 else None)
    assert response.controller_id == (1 if version >= 1 else -1)
    (topic,) = response.topics
    assert topic.topic_id == (ORDERS if version >= 10 else ZERO_UUID)
    assert [partition.partition_index for partition in topic.partitions] == [0, 1]
    for partition in topic.partitions:
        placed = IMAGE.topics_by_id[ORDERS].partitions[partition.partition_index]
        assert partition.error_code == ErrorCode.NONE
        assert partition.leader_id == placed.leader
        assert partition.leader_epoch == (0 if version >= 7 else -1)
        assert (partition.replica_nodes, partition.isr_nodes) == (placed.replicas, placed.isr)
        assert partition.offline_replicas == ()


@pytest.mark.parametrize(("version", "is_all"), [(0, True), (1, False), (12, False)])
def test_an_empty_list_means_all_topics_in_version_0_only(version: int, is_all: bool) -> None:
    assert len(request_metadata(version).topics) == (3 if is_all else 0)


@pytest.mark.parametrize("version", range(1, 14))
def test_null_means_all_topics(version: int) -> None:
    response = request_metadata(version, everything=True)
    assert sorted(str(topic.name) for topic in response.topics) == ["__consumer_offsets", "orders", "users"]
    assert {topic.name for topic in response.topics if topic.is_internal} == {"__consumer_offsets"}


def test_an_unknown_topic_is_returned_by_its_name() -> None:
    response = request_metadata(
        12, "nowhere", "bad name", "__transaction_state", "orders", allow_auto_topic_creation=False
    )
    assert codes(response) == {
        "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "__transaction_state": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "orders": ErrorCode.NONE,
    }
    assert {topic.name for topic in response.topics if topic.is_internal} == {"__transaction_state"}


@pytest.mark.parametrize("version", [1, 3, 4, 12, 13])
def test_a_requested_topic_is_created_if_auto_creation_is_enabled(version: int) -> None:
    creation = RecordedCreation()
    response = request_metadata(version, "new", "orders", "bad name", creation=creation)
    assert creation.requested_names == ["new"]
    assert codes(response) == {
        "new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "orders": ErrorCode.NONE,
        "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }


def test_a_client_may_disable_auto_creation() -> None:
    creation = RecordedCreation()
    response = request_metadata(4, "new", creation=creation, allow_auto_topic_creation=False)
    assert creation.requested_names == []
    assert codes(response) == {"new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_a_request_for_all_topics_creates_none() -> None:
    creation = RecordedCreation()
    request_metadata(12, everything=True, creation=creation)
    assert creation.requested_names == []


def test_a_duplicate_topic_is_returned_once() -> None:
    assert len(request_metadata(12, "orders", "orders").topics) == 1


@pytest.mark.parametrize("version", [12, 13])
def test_topics_are_found_by_id(version: int) -> None:
    unknown = UUID(int=4)
    response = request_metadata(version, ids=(ORDERS, unknown, ORDERS))
    assert [(topic.name, topic.topic_id, topic.error_code) for topic in response.topics] == [
        ("orders", ORDERS, ErrorCode.NONE),
        (None, unknown, ErrorCode.UNKNOWN_TOPIC_ID),
    ]


def test_names_are_ignored_in_a_request_with_ids() -> None:
    assert [topic.name for topic in request_metadata(12, "users", ids=(ORDERS,)).topics] == ["orders"]


@pytest.mark.parametrize("version", [10, 11])
def test_ids_are_refused_before_version_12(version: int) -> None:
    request = MetadataRequest(topics=(MetadataRequestTopic(name="orders", topic_id=ORDERS),))
    handler = MetadataHandler(lambda: IMAGE, 1, None, ALLOW_EVERYTHING)
    response = over_the_wire(
        run_steps(handler.handle(request_context(version), over_the_wire(request, version))), version
    )
    assert codes(response) == {"orders": ErrorCode.INVALID_REQUEST}


@pytest.mark.parametrize("version", [10, 12, 13])
def test_a_topic_with_neither_name_nor_id_is_refused(version: int) -> None:
    response = request_metadata(version, None)
    assert codes(response) == {"": ErrorCode.INVALID_REQUEST}
    assert response.error_code == (ErrorCode.INVALID_REQUEST if version >= 13 else 0)


def test_authorized_operations_are_returned_on_request() -> None:
    flags: dict[str, Any] = {
        "include_topic_authorized_operations": True,
        "include_cluster_authorized_operations": True,
    }
    for version in (8, 9, 10):
        response = request_metadata(version, "orders", **flags)
        assert response.topics[0].topic_authorized_operations == 3576
        assert response.cluster_authorized_operations == 8096
    response = request_metadata(12, "orders", "nowhere", include_topic_authorized_operations=True)
    assert {topic.topic_authorized_operations for topic in response.topics} == {3576}
    response = request_metadata(12, "orders")
    assert response.topics[0].topic_authorized_operations == -(2**31)


@pytest.mark.parametrize("version", [5, 6, 13])
def test_a_leader_that_is_not_registered_is_not_available(version: int) -> None:
    leader = IMAGE.topics_by_id[ORDERS].partitions[0].leader
    image = image_after(UnregisterBrokerRecord(broker_id=leader, broker_epoch=100 + leader))
    (topic,) = request_metadata(version, "orders", image=image).topics
    partition = topic.partitions[0]
    assert partition.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert partition.leader_id == -1
    assert partition.offline_replicas == (leader,)


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (0, ErrorCode.LEADER_NOT_AVAILABLE),
        (5, ErrorCode.LEADER_NOT_AVAILABLE),
        (6, ErrorCode.LISTENER_NOT_FOUND),
        (13, ErrorCode.LISTENER_NOT_FOUND),
    ],
)
def test_a_leader_without_the_clients_listener_is_listener_not_found(version: int, code: ErrorCode) -> None:
    response = request_metadata(version, "orders", listener="OTHER")
    assert response.brokers == ()
    assert {partition.error_code for partition in response.topics[0].partitions} == {code}


def test_a_partition_without_a_leader_has_an_error() -> None:
    image = image_after(PartitionChangeRecord(topic_id=ORDERS, partition_id=0, leader=-1))
    partition = request_metadata(12, "orders", image=image).topics[0].partitions[0]
    assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert partition.leader_epoch == 1


def test_a_fenced_broker_is_omitted_and_its_replicas_are_offline() -> None:
    image = image_after(FenceBrokerRecord(id=3, epoch=103))
    response = request_metadata(12, "orders", image=image)
    assert [broker.node_id for broker in response.brokers] == [1, 2]
    for index, partition in enumerate(response.topics[0].partitions):
        has_it = 3 in IMAGE.topics_by_id[ORDERS].partitions[index].replicas
        assert partition.offline_replicas == ((3,) if has_it else ())


def test_version_0_omits_replicas_that_are_not_in_the_broker_list() -> None:
    partitions = IMAGE.topics_by_id[ORDERS].partitions
    follower = partitions[0].replicas[1]
    image = image_after(FenceBrokerRecord(id=follower, epoch=100 + follower))
    partition = request_metadata(0, "orders", image=image).topics[0].partitions[0]
    assert partition.error_code == ErrorCode.REPLICA_NOT_AVAILABLE
    assert follower not in partition.replica_nodes
    assert follower not in partition.isr_nodes


def test_a_replica_in_a_failed_directory_is_offline() -> None:
    partition = IMAGE.topics_by_id[ORDERS].partitions[0]
    broker = partition.replicas[0]
    record = RegisterBrokerRecord(
        broker_id=broker,
        broker_epoch=500,
        end_points=(BrokerEndpoint(name="PLAINTEXT", host="h", port=1),),
        fenced=False,
        log_dirs=(UUID(int=12345),),
    )
    described = request_metadata(12, "orders", image=image_after(record)).topics[0].partitions[0]
    assert described.offline_replicas == (broker,)


def test_an_unfenced_broker_is_returned_as_controller() -> None:
    image = image_after(FenceBrokerRecord(id=1, epoch=101))
    assert request_metadata(12, image=image).controller_id == 2
    assert request_metadata(12, image=image_with_brokers()).controller_id == -1
