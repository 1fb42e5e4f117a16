"""Tiered topics of a cluster: creation, tiering, and offsets."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.support.nodes.topic_admin import TopicAdmin
from tests.support.waiting import wait_until
from tidelog.broker.node.node import BrokerNode
from tidelog.clients.admin.admin import Admin
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.testing.embedded import EmbeddedCluster

TIERED = {
    "remote.storage.enable": "true",
    "segment.bytes": "1048576",
    "retention.ms": "-1",
    "local.retention.bytes": "1",
    "local.retention.ms": "-1",
}
SEGMENT_BYTES = 1 << 20


class Border(NamedTuple):
    """The offsets of one partition on one node."""

    log_start: int
    local_start: int
    highest_remote: int
    log_end: int
    segments: int


class TieredTopics:
    """Operations of tests with tiered topics."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster

    @property
    def _admin(self) -> TopicAdmin:
        return TopicAdmin(self.cluster.bootstrap_servers)

    def create(self, topic: str, configs: Mapping[str, str] | None = None, partitions: int = 1) -> None:
        """Create a tiered topic with small local retention."""
        self._admin.create(topic, {**TIERED, **(configs or {})}, partitions)

    def delete(self, topic: str) -> None:
        """Delete the topic."""
        self._admin.delete(topic)

    def alter(self, topic: str, configs: Mapping[str, str]) -> None:
        """Change configs of the topic."""
        self._admin.alter(topic, configs)

    def offset(self, topic: str, timestamp: int, partition: int = 0) -> int:
        """Return an offset by ListOffsets."""

        async def request_offset() -> int:
            name = TopicPartition(topic, partition)
            async with Admin(self.cluster.bootstrap_servers) as admin:
                result = (await admin.list_offsets({name: timestamp}))[name]
                if isinstance(result, KafkaError):
                    raise result
                return result.offset

        return asyncio.run(request_offset())

    def border(self, topic: str, partition: int = 0, node_id: int | None = None) -> Border:
        """Return the offsets of the partition on a node, by default the leader."""

        def read_border(node: BrokerNode) -> Border:
            log = node.services.replicas.partition(TopicPartition(topic, partition)).log
            return Border(
                log.log_start_offset,
                log.local_log_start_offset,
                log.highest_offset_in_remote_storage,
                log.log_end_offset,
                len(log.segments),
            )

        return self.cluster.run(read_border, self.leader(topic, partition) if node_id is None else node_id)

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the leader of the partition."""
        return self.cluster.run(
            lambda node: node.services.image().topics_by_name[topic].partitions[partition].leader
        )

    def log(self, node: BrokerNode, topic: str, partition: int = 0) -> PartitionLog:
        """Return the log; use it only on the node's event loop."""
        return node.services.replicas.partition(TopicPartition(topic, partition)).log

    def wait_until_tiered(self, topic: str, partition: int = 0) -> Border:
        """Wait until all segments except the active one are only in the tier."""
        wait_until(lambda: self._is_tiered(self.border(topic, partition)))
        return self.border(topic, partition)

    def _is_tiered(self, border: Border) -> bool:
        return border.segments == 1 and border.local_start == border.highest_remote + 1 > border.log_start

    def objects(self, part: str = "") -> list[Path]:
        """Return the objects whose path contains `part`."""
        # Unlike rglob, os.walk tolerates that directories are removed during the walk.
        walk = os.walk(self.cluster.tier_dir)
        paths = (Path(folder, name) for folder, _, names in walk for name in names)
        return sorted(path for path in paths if part in str(path))
