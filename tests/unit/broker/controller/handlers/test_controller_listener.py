"""The responses of a controller on its own listener, to clients that connect to it directly (KIP-919)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

import pytest

from tests.harness.quotas.rates import set_quotas
from tests.support.network.raw_client import RawClient
from tests.support.nodes.three_nodes import ThreeNodes
from tests.support.waiting import wait_until, wait_until_passes
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tidelog.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from tidelog.protocol.registry import FORWARDABLE, ApiKey
from tidelog.testing.embedded import EmbeddedCluster


@pytest.fixture(scope="module")
def three() -> Iterator[ThreeNodes]:
    with EmbeddedCluster(nodes=3) as cluster:
        nodes = ThreeNodes(cluster)
        wait_until(lambda: nodes.brokers() == {1, 2, 3} and nodes.controller() is not None)
        wait_until(lambda: all(_controllers(nodes, each) == {1, 2, 3} for each in (1, 2, 3)))
        yield nodes


def _controllers(three: ThreeNodes, node_id: int) -> set[int]:
    return three.cluster.run(lambda node: set(node.services.image().controllers), node_id)


def port(three: ThreeNodes, node_id: int) -> int:
    return three.cluster.run(lambda node: node.bound_port("CONTROLLER"), node_id)


def controller_client(three: ThreeNodes, node_id: int) -> RawClient:
    return RawClient("127.0.0.1", port(three, node_id))


def describe_cluster(client: RawClient, version: int, **fields: Any) -> DescribeClusterResponse:
    return client.send_request(DescribeClusterRequest(**fields), version, DescribeClusterResponse)


def test_a_controller_lists_what_it_serves(three: ThreeNodes) -> None:
    with controller_client(three, 1) as client:
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        keys = {each.api_key for each in client.send_request(request, 4, ApiVersionsResponse).api_keys}
    assert keys >= FORWARDABLE
    assert keys >= {ApiKey.ENVELOPE, ApiKey.BROKER_REGISTRATION, ApiKey.BROKER_HEARTBEAT, ApiKey.VOTE}
    assert not keys & {ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.JOIN_GROUP, ApiKey.FIND_COORDINATOR}


@pytest.mark.parametrize("node_id", [1, 2, 3])
def test_every_controller_knows_all_controllers_and_the_active_one(three: ThreeNodes, node_id: int) -> None:
    with controller_client(three, node_id) as client:
        for version in (1, 2):
            response = describe_cluster(client, version, endpoint_type=2)
            assert response.error_code == ErrorCode.NONE
            assert response.controller_id == three.wait_for_controller()
            assert {(each.broker_id, each.port) for each in response.brokers} == {
                (each, port(three, each)) for each in (1, 2, 3)
            }


def test_a_controller_does_not_describe_brokers_nor_a_broker_controllers(three: ThreeNodes) -> None:
    with controller_client(three, 1) as client:
        assert describe_cluster(client, 1, endpoint_type=1).error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
        assert describe_cluster(client, 0).error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
        assert describe_cluster(client, 1, endpoint_type=7).error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
    host, _, broker_port = three.servers.split(",")[0].rpartition(":")
    with RawClient(host, int(broker_port)) as client:
        assert describe_cluster(client, 1, endpoint_type=2).error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE


@pytest.fixture
def quota(three: ThreeNodes) -> Iterator[Callable[[str, float], None]]:
    """Yield a function that sets a quota of the raw clients; remove the quotas at the end."""
    names: set[str] = set()

    def alter(name: str, value: float) -> None:
        names.add(name)
        set_quotas(three.servers, {name: value}, "raw")

    yield alter
    set_quotas(three.servers, dict.fromkeys(names), "raw")


def test_a_client_that_uses_too_much_time_is_throttled(
    three: ThreeNodes, quota: Callable[[str, float], None]
) -> None:
    quota("request_percentage", 0.000_1)
    with controller_client(three, 1) as client:
        wait_until(lambda: describe_cluster(client, 1, endpoint_type=2).throttle_time_ms > 0)


def test_a_client_that_changes_too_many_partitions_directly_is_muted(
    three: ThreeNodes, quota: Callable[[str, float], None]
) -> None:
    quota("controller_mutation_rate", 1)
    active = three.wait_for_controller()
    topic = CreatableTopic(name="muted", num_partitions=12, replication_factor=1)
    with controller_client(three, active) as client:
        # Version 5 is not strict: the topic is created, and the client is throttled.
        request = CreateTopicsRequest(topics=(topic,), timeout_ms=5_000)
        began_s = monotonic()
        throttle_time_ms = client.send_request(request, 5, CreateTopicsResponse).throttle_time_ms
        assert throttle_time_ms > 500
        describe_cluster(client, 1, endpoint_type=2)
        assert monotonic() - began_s > throttle_time_ms / 1000 - 0.1


def test_only_the_active_controller_changes_metadata(three: ThreeNodes) -> None:
    request = CreateTopicsRequest(
        topics=(CreatableTopic(name="direct", num_partitions=1, replication_factor=1),), validate_only=True
    )

    def error_at(node_id: int) -> ErrorCode:
        with controller_client(three, node_id) as client:
            [topic] = client.send_request(request, 7, CreateTopicsResponse).topics
        return ErrorCode(topic.error_code)

    def check() -> None:
        active = three.wait_for_controller()
        errors = {node_id: error_at(node_id) for node_id in (1, 2, 3)}
        expected = dict.fromkeys((1, 2, 3), ErrorCode.NOT_CONTROLLER) | {active: ErrorCode.NONE}
        assert errors == expected

    # An election between two of the requests changes the active controller.
    wait_until_passes(check)


def test_configs_are_described_by_controllers_too(three: ThreeNodes) -> None:
    with controller_client(three, 2) as client:
        response = client.send_request(DescribeConfigsRequest(), 4, DescribeConfigsResponse)
    assert response.results == ()
