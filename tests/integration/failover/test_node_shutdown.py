"""Nodes that stop while clients wait for responses leave no task and no unretrieved exception.

The event loop would report those later, as an ERROR without a cause.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.logs.partition_logs import batch
from tests.support.loops.unhandled import UnhandledErrors, other_tasks
from tests.support.network.raw_client import RawClient
from tests.support.waiting import eventually
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.node.node import BrokerNode
from tidelog.cluster.topic_names import GROUP_METADATA_TOPIC
from tidelog.local_cluster.layout import new_layout
from tidelog.protocol.framing import encode_request
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.protocol.schema import ApiMessage
from tidelog.testing.embedded import CLUSTER_DEFAULTS

TOPIC = "tides"
PARTITIONS = 3
GROUPS = 8
SHARDS = int(CLUSTER_DEFAULTS["offsets.topic.num.partitions"])
# A stopped follower stays in the ISR, so that records of coordinators are not committed.
SLOW_TO_FENCE = {"broker.session.timeout.ms": "10000", "replica.lag.time.max.ms": "20000"}
ACKS_ALL = -1


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[dict[int, BrokerNode]]:
    layout = new_layout(tmp_path, 3, settings={**CLUSTER_DEFAULTS, **SLOW_TO_FENCE})
    layout.write()
    configs = {node_id: BrokerConfig(layout.properties(layout.node(node_id))) for node_id in (1, 2, 3)}
    started = await asyncio.gather(*(BrokerNode.start(config) for config in configs.values()))
    nodes = dict(zip(configs, started, strict=True))
    yield nodes
    await asyncio.gather(*(node.abandon() for node in nodes.values()))


def client_of(node: BrokerNode) -> RawClient:
    ((_, host, port),) = node.addresses()
    return RawClient(host, port)


def create_topics(node: BrokerNode) -> None:
    """Create the topic and `__consumer_offsets`."""
    topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=3)
    with client_of(node) as client:
        response = client.send_request(
            CreateTopicsRequest(topics=(topic,), timeout_ms=20_000), 7, CreateTopicsResponse
        )
        assert response.topics[0].error_code == 0
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=("group 0",))
        client.send_request(find, 4, FindCoordinatorResponse)


def long_waiting_requests() -> list[tuple[ApiMessage, int]]:
    """Return requests that the leader parks; all of them are sent to each node."""
    fetched = tuple(FetchPartition(partition=index, partition_max_bytes=1_000) for index in range(PARTITIONS))
    records = tuple(
        PartitionProduceData(index=index, records=bytes(batch(["value"]))) for index in range(PARTITIONS)
    )
    committed = OffsetCommitRequestTopic(
        name=TOPIC, partitions=(OffsetCommitRequestPartition(partition_index=0, committed_offset=1),)
    )
    protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
    joins = JoinGroupRequest(
        group_id="members",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=(protocol,),
    )
    topic_data = (TopicProduceData(name=TOPIC, partition_data=records),)
    topics = (FetchTopic(topic=TOPIC, partitions=fetched),)
    return [
        (FetchRequest(max_wait_ms=10_000, min_bytes=1 << 20, topics=topics), 12),
        (ProduceRequest(acks=ACKS_ALL, timeout_ms=10_000, topic_data=topic_data), 9),
        (joins, 3),
        *(
            (OffsetCommitRequest(group_id=f"group {number}", topics=(committed,)), 8)
            for number in range(GROUPS)
        ),
    ]


def send_everything(nodes: list[BrokerNode], stack: ExitStack) -> None:
    """Send each request on its own connection, and read no response."""
    for node in nodes:
        ((_, host, port),) = node.addresses()
        for request, version in long_waiting_requests():
            connection = stack.enter_context(socket.create_connection((host, port), 5))
            connection.sendall(encode_request(request.api_key, version, 1, "test", request))


def is_led_everywhere(nodes: dict[int, BrokerNode], topic: str, partitions: int) -> bool:
    """Return whether all replicas of every partition are in sync, and its leader serves it."""
    images = [node.services.image().topics_by_name.get(topic) for node in nodes.values()]
    return all(
        image is not None
        and len(image.partitions) == partitions
        and all(len(placed.isr) == 3 for placed in image.partitions.values())
        for image in images
    )


def uncommitted_shards(node: BrokerNode) -> int:
    """Return the number of partitions of `__consumer_offsets` that wait for followers on this node."""
    shards: Any = node.services.groups._shards
    return sum(shards.get(index) is not None and shards.get(index).has_uncommitted for index in range(SHARDS))


async def test_nodes_that_stop_with_waiting_clients_leave_no_task(nodes: dict[int, BrokerNode]) -> None:
    unhandled = UnhandledErrors(asyncio.get_running_loop())
    await asyncio.to_thread(create_topics, nodes[1])
    for topic, partitions in ((TOPIC, PARTITIONS), (GROUP_METADATA_TOPIC, SHARDS)):
        await eventually(partial(is_led_everywhere, nodes, topic, partitions))
    await nodes.pop(3).abandon()
    with ExitStack() as stack:
        await asyncio.to_thread(send_everything, list(nodes.values()), stack)
        await eventually(lambda: sum(map(uncommitted_shards, nodes.values())) > 0)
        await asyncio.gather(*(node.stop(1.0) for node in nodes.values()))
        nodes.clear()
    assert await unhandled.collect_reports() == []
    assert other_tasks() == []
