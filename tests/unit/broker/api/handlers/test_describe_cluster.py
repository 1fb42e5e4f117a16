"""DescribeCluster, DescribeTopicPartitions and ListConfigResources."""

from __future__ import annotations

from typing import Any

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
from tidelog.broker.api.handlers.describe_cluster import DescribeClusterHandler
from tidelog.broker.api.handlers.describe_topic_partitions import DescribeTopicPartitionsHandler
from tidelog.broker.api.handlers.list_config_resources import ListConfigResourcesHandler
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tidelog.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    RequestCursor,
    ResponseCursor,
    TopicRequest,
)
from tidelog.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.metadata_records.fence_broker_record import FenceBrokerRecord
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from tidelog.protocol.steps import run_steps

IMAGE = image_after_records(
    [
        FenceBrokerRecord(id=3, epoch=103),
        ConfigRecord(resource_type=32, resource_name="readers", name="a", value="b"),
    ],
    with_topics(image_with_brokers(1, 2, 3), creatable("b", 4), creatable("a", 3), creatable("c")),
)


def cluster(version: int, listener: str = "PLAINTEXT", **fields: Any) -> DescribeClusterResponse:
    handler = DescribeClusterHandler(lambda: IMAGE, 1, ALLOW_EVERYTHING)
    request = over_the_wire(DescribeClusterRequest(**fields), version)
    return over_the_wire(handler.handle(request_context(version, listener=listener), request), version)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_unfenced_brokers_are_described(version: int) -> None:
    response = cluster(version)
    assert response.cluster_id == CLUSTER_ID
    assert response.controller_id == 1
    assert [(broker.broker_id, broker.host, broker.port, broker.rack) for broker in response.brokers] == [
        (1, "host1", 9093, "rack1"),
        (2, "host2", 9094, "rack2"),
    ]
    assert response.cluster_authorized_operations == -(2**31)
    assert (response.error_code, response.error_message) == (0, None)


def test_fenced_brokers_are_returned_on_request() -> None:
    response = cluster(2, include_fenced_brokers=True)
    assert [(broker.broker_id, broker.is_fenced) for broker in response.brokers] == [
        (1, False),
        (2, False),
        (3, True),
    ]


def test_authorized_operations_are_returned_on_request() -> None:
    assert cluster(1, include_cluster_authorized_operations=True).cluster_authorized_operations == 8096


def test_brokers_without_the_listener_are_omitted() -> None:
    assert cluster(1, listener="OTHER").brokers == ()


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
def test_a_broker_does_not_describe_controllers(endpoint_type: int, code: ErrorCode) -> None:
    response = cluster(1, endpoint_type=endpoint_type)
    assert response.error_code == code
    assert response.error_message


def partitions(
    *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None, node_limit: int = 2000
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest(
        topics=tuple(TopicRequest(name=name) for name in names),
        response_partition_limit=limit,
        cursor=None if cursor is None else RequestCursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    handler = DescribeTopicPartitionsHandler(lambda: IMAGE, node_limit, ALLOW_EVERYTHING)
    return over_the_wire(run_steps(handler.handle(request_context(0), over_the_wire(request, 0))), 0)


def pieces(response: DescribeTopicPartitionsResponse) -> list[tuple[str | None, list[int]]]:
    return [
        (topic.name, [partition.partition_index for partition in topic.partitions])
        for topic in response.topics
    ]


def cursor_at(topic: str, index: int) -> ResponseCursor:
    return ResponseCursor(topic_name=topic, partition_index=index)


def test_topics_are_sorted_by_name_without_duplicates() -> None:
    response = partitions("c", "a", "c", "nowhere", "bad name")
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("a", 0),
        ("bad name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("c", 0),
        ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert {topic.topic_authorized_operations for topic in response.topics} == {3576}
    assert response.next_cursor is None


def test_an_empty_list_means_all_topics() -> None:
    assert pieces(partitions()) == [("a", [0, 1, 2]), ("b", [0, 1, 2, 3]), ("c", [0])]


@pytest.mark.parametrize(
    ("limit", "expected", "cursor"),
    [
        (2, [("a", [0, 1])], cursor_at("a", 2)),
        (3, [("a", [0, 1, 2])], cursor_at("b", 0)),
        (4, [("a", [0, 1, 2]), ("b", [0])], cursor_at("b", 1)),
        (7, [("a", [0, 1, 2]), ("b", [0, 1, 2, 3])], cursor_at("c", 0)),
        (8, [("a", [0, 1, 2]), ("b", [0, 1, 2, 3]), ("c", [0])], None),
        (0, [("a", [0])], cursor_at("a", 1)),
        (-5, [("a", [0])], cursor_at("a", 1)),
    ],
)
def test_a_response_ends_at_the_limit_with_the_next_cursor(
    limit: int, expected: list[tuple[str, list[int]]], cursor: ResponseCursor | None
) -> None:
    response = partitions(limit=limit)
    assert pieces(response) == expected
    assert response.next_cursor == cursor
    assert pieces(partitions(node_limit=max(limit, 1))) == expected


def test_all_responses_together_have_all_partitions() -> None:
    for limit in range(1, 9):
        listed_indexes: list[tuple[str | None, int]] = []
        cursor: tuple[str, int] | None = None
        for _ in range(20):
            response = partitions(limit=limit, cursor=cursor)
            listed_indexes += [(name, index) for name, indexes in pieces(response) for index in indexes]
            if response.next_cursor is None:
                break
            cursor = (response.next_cursor.topic_name, response.next_cursor.partition_index)
        assert listed_indexes == [
            (name, index) for name, indexes in pieces(partitions()) for index in indexes
        ]


@pytest.mark.parametrize(
    ("cursor", "expected"),
    [
        (("b", 2), [("b", [2, 3]), ("c", [0])]),
        (("b", 9), [("b", []), ("c", [0])]),
        (("aa", 3), [("b", [0, 1, 2, 3]), ("c", [0])]),
        (("zzz", 0), []),
    ],
)
def test_a_cursor_continues_at_its_partition(
    cursor: tuple[str, int], expected: list[tuple[str, list[int]]]
) -> None:
    assert pieces(partitions(cursor=cursor)) == expected


@pytest.mark.parametrize("cursor", [("b", 0), ("a", -1)])
def test_an_invalid_cursor_is_refused(cursor: tuple[str, int]) -> None:
    with pytest.raises(KafkaError) as error:
        partitions("a", cursor=cursor)
    assert error.value.code is ErrorCode.INVALID_REQUEST


def test_partitions_have_eligible_leader_replicas_and_offline_replicas() -> None:
    topic = IMAGE.topics_by_name["c"]
    change = PartitionChangeRecord(
        topic_id=topic.id,
        partition_id=0,
        leader=-1,
        isr=(),
        eligible_leader_replicas=(2,),
        last_known_elr=(3,),
    )
    image = image_after_records([change], IMAGE)
    handler = DescribeTopicPartitionsHandler(lambda: image, 10, ALLOW_EVERYTHING)
    request = DescribeTopicPartitionsRequest(topics=(TopicRequest(name="c"),))
    (partition,) = run_steps(handler.handle(request_context(0), request)).topics[0].partitions
    assert (partition.leader_id, partition.error_code) == (-1, 0)
    assert partition.eligible_leader_replicas == (2,)
    assert partition.last_known_elr == (3,)


def resources(version: int, *types: int) -> tuple[int, list[tuple[str, int]]]:
    handler = ListConfigResourcesHandler(lambda: IMAGE)
    request = over_the_wire(ListConfigResourcesRequest(resource_types=types), version)
    response = over_the_wire(run_steps(handler.handle(request_context(version), request)), version)
    names_and_types = [
        (resource.resource_name, resource.resource_type) for resource in response.config_resources
    ]
    return response.error_code, names_and_types


def test_resources_with_configs_are_listed_by_type() -> None:
    assert resources(1, 2) == (0, [("b", 2), ("a", 2), ("c", 2)])
    assert resources(1, 4) == (0, [("1", 4), ("2", 4)])
    assert resources(1, 8) == (0, [("1", 8), ("2", 8)])
    assert resources(1, 32) == (0, [("readers", 32)])
    assert resources(1, 16) == (0, [])


def test_an_empty_list_of_types_means_all() -> None:
    code, listed = resources(1)
    assert code == 0
    assert {kind for _, kind in listed} == {2, 4, 8, 32}


def test_version_0_lists_client_metrics_only() -> None:
    assert resources(0) == (0, [])


def test_an_unknown_resource_type_is_refused() -> None:
    assert resources(1, 3) == (ErrorCode.UNSUPPORTED_VERSION, [])
