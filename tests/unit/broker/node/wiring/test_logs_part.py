"""The logs of a complete node."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support.metadata.images import CLUSTER_ID
from tests.support.nodes.node_on_disk import CONFIG
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.metadata.formatting import NewCluster, format_directories
from tidelog.broker.node.node import BrokerNode
from tidelog.broker.node.wiring.node_context import NodeFailure
from tidelog.broker.node.wiring.node_ports import system_ports
from tidelog.protocol.metadata_records.feature_level_record import FeatureLevelRecord
from tidelog.testing.simulation.crash_file_system import CrashFileSystem


@asynccontextmanager
async def node_at(level: int, failure: NodeFailure) -> AsyncIterator[BrokerNode]:
    """Yield a node with two log directories at a level of metadata.version."""
    disk, config = CrashFileSystem(), BrokerConfig(CONFIG)
    cluster = NewCluster(
        CLUSTER_ID, first_records=[FeatureLevelRecord(name="metadata.version", feature_level=level)]
    )
    list(
        format_directories(
            disk, config, cluster, ignore_formatted=False, randomness=random.SystemRandom(), now_ms=1
        )
    )
    node = await BrokerNode.start(config, ports=system_ports(fs=disk), failure=failure)
    try:
        yield node
    finally:
        await node.abandon()


@pytest.mark.parametrize("level", [16, 17])
async def test_a_failed_directory_stops_a_node_whose_metadata_version_has_no_directories(level: int) -> None:
    """Its partitions kept a leader that could not serve them: the controller did not know the failure."""
    failure = NodeFailure(1)
    async with node_at(level, failure) as node:
        directories = node.services.logs.directories
        [second] = [each for each in directories if each.path == "/disk-2"]
        directories.take_offline(second, "the disk is broken")
        assert failure.event.is_set() == (level == 16)
        expected = (
            "log directory /disk-2 has failed; below metadata.version 17 (it is 16), its partitions get "
            "other leaders only if the node stops"
        )
        assert failure.reason == (expected if level == 16 else "")
