"""A tiered cluster of processes that kill themselves at a given fault point."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path
from uuid import UUID

import confluent_kafka

from tests.support.nodes.killed_node import ARMED_FILE, DIED_FILE
from tests.support.nodes.topic_admin import TopicAdmin
from tests.support.tier.audit import TierAudit, Written
from tests.support.tier.tiered_topics import SEGMENT_BYTES, TIERED
from tests.support.waiting import wait_until, wait_until_passes
from tidelog.clients.admin.admin import Admin
from tidelog.local_cluster.cluster import LocalCluster
from tidelog.local_cluster.node_process import NodeProcess
from tidelog.local_cluster.tiering import QUICK_TIERING, TIER_FOLDER, tiered_settings
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.remote.ports.segment_metadata import TopicIdPartition
from tidelog.testing.embedded import CLUSTER_DEFAULTS, EMBEDDED_DEFAULTS

TIMEOUT_S = 90.0
VALUE_BYTES = 8_000


class CrashingCluster:
    """`count` started nodes in an empty `folder`; `stop` kills all running ones."""

    def __init__(self, folder: Path, count: int, settings: Mapping[str, str] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        defaults = CLUSTER_DEFAULTS if count > 1 else EMBEDDED_DEFAULTS
        own = {**defaults, **QUICK_TIERING, **(settings or {})}
        self.cluster = LocalCluster.create(
            folder / "cluster", count, settings=tiered_settings(folder, count, own)
        )
        for node_id in self.cluster.nodes:
            place = self.cluster.layout.node_folder(node_id)
            self.cluster.nodes[node_id] = NodeProcess(place, "tests.support.nodes.killed_node")
        self.count = count
        self.tier = folder / TIER_FOLDER
        self.audit = TierAudit(self.cluster.bootstrap_servers, self.tier)
        self.settled: dict[str, Written] = {}
        """The records of settled topics, by topic."""
        self._ids: dict[str, UUID] = {}
        self._admin = TopicAdmin(self.cluster.bootstrap_servers)
        self.cluster.start()

    def stop(self) -> None:
        """Kill every node; the folder is kept."""
        for node in self.cluster.nodes.values():
            node.kill()

    # --- topics ---------------------------------------------------------------------------

    def create(self, topic: str, **configs: str) -> Written:
        """Create a tiered topic with one partition, small local retention, and all replicas in sync."""
        own = {key.replace("_", "."): text for key, text in configs.items()}
        self._ids[topic] = self._admin.create(topic, {**TIERED, **own}, 1, self.count)
        self.wait_until_whole(topic)
        return Written(topic)

    def alter(self, topic: str, **configs: str) -> None:
        """Change configs of the topic; config keys have underscores instead of dots."""
        self._admin.alter(topic, {key.replace("_", "."): value for key, value in configs.items()})

    def delete(self, topic: str) -> None:
        """Delete the topic; an unknown topic is no error, because a response may have been lost."""
        try:
            self._admin.delete(topic)
        except KafkaError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise

    def partition(self, topic: str) -> TopicIdPartition:
        """Return the only partition of a topic, with its topic id."""
        return TopicIdPartition(self._ids[topic], topic, 0)

    def leader(self, topic: str) -> int:
        """Return the leader; -1 if there is none or no node responds."""
        return self.describe(topic)[0]

    def produce(self, written: Written, segments: float) -> None:
        """Produce as many segments of records; TimeoutError unless all are acknowledged."""
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self.cluster.bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": int(TIMEOUT_S * 1000),
                "log_level": 0,
            }
        )
        before = len(written.values)
        count = int(segments * SEGMENT_BYTES / VALUE_BYTES)
        for number in range(before, before + count):
            value = f"{written.topic} {written.era} {number} ".encode().ljust(
                VALUE_BYTES, b"%d" % (number % 10)
            )
            producer.produce(written.topic, value, partition=0, on_delivery=written.on_delivery)
        if producer.flush(TIMEOUT_S):
            raise TimeoutError(f"{written.topic}: records are not acknowledged")
        assert written.failed == [], written.failed[:3]

    # --- kills ----------------------------------------------------------------------------

    def arm(self, node_id: int, moment: Enum, nth: int = 1) -> None:
        """Let the node kill itself when it reaches the fault point `moment` for the nth time from now on."""
        folder = self.cluster.layout.node_folder(node_id)
        (folder / DIED_FILE).unlink(missing_ok=True)
        new = folder / f"{ARMED_FILE}.new"
        new.write_text(f"{moment.name} {nth}")
        new.rename(folder / ARMED_FILE)

    def wait_for_death(self, node_id: int) -> None:
        """Wait until the armed fault point was reached; AssertionError if the node ended otherwise."""
        node = self.cluster.nodes[node_id]
        folder = self.cluster.layout.node_folder(node_id)
        wait_until(lambda: not node.is_running, f"death of node {node_id}", timeout_s=TIMEOUT_S)
        assert (folder / DIED_FILE).exists(), f"node {node_id} ended otherwise: {node.log_tail(20)}"
        node.wait(10.0)

    def start(self, node_id: int) -> None:
        """Start a killed node and wait until clients find it in the metadata."""
        self.cluster.start([node_id])

    def empty(self, topic: str, node_id: int) -> None:
        """Remove a partition from a stopped node."""
        shutil.rmtree(self.cluster.layout.data_folder(node_id) / f"{topic}-0")

    # --- waiting and checking -------------------------------------------------------------

    def wait_until_whole(self, topic: str) -> None:
        """Wait until every replica is in sync."""
        wait_until(lambda: self.describe(topic)[1] == self.count, f"whole {topic}", timeout_s=TIMEOUT_S)

    def wait_until_led_without(self, topic: str, node_id: int) -> None:
        """Wait until another node is the leader."""
        wait_until(
            lambda: self.leader(topic) not in (node_id, -1),
            f"another leader of {topic}",
            timeout_s=TIMEOUT_S,
        )

    def settle(self, written: Written) -> None:
        """Wait until all sealed segments are only in the tier, without orphans; then check all invariants.

        Raises AssertionError with the last violation if the wait times out.
        """
        self.drain(written)
        wait_until_passes(
            lambda: self._require_settled(written), timeout_s=TIMEOUT_S, tolerated=(KafkaError, OSError)
        )
        borders = self.audit.borders(written.topic)
        borders.require_order()
        self.audit.require_readable(written, borders)
        self.settled[written.topic] = written

    def drain(self, written: Written) -> None:
        """Wait until all sealed segments are only in the tier."""
        wait_until(lambda: self._is_drained(written), f"drained {written.topic}", timeout_s=TIMEOUT_S)

    def require_gone(self, topic: str) -> None:
        """Wait until the tier has no objects of a deleted topic."""

        def require() -> None:
            partition = self.partition(topic)
            assert self.audit.objects(partition.topic_id) == set()
            assert self.audit.segments(partition) == []

        wait_until_passes(require, timeout_s=TIMEOUT_S, tolerated=(KafkaError, OSError))

    def _require_settled(self, written: Written) -> None:
        partition = self.partition(written.topic)
        segments = self.audit.segments(partition)
        borders = self.audit.borders(written.topic)
        borders.require_order()
        self.audit.require_covered_once(segments, borders)
        objects = self.audit.objects(partition.topic_id)
        expected = self.audit.expected_objects(segments)
        assert objects == expected, f"orphans {objects - expected}, missing {expected - objects}"
        states = {each.state.name for each in segments}
        assert states <= {"COPY_SEGMENT_FINISHED"}, states

    def _is_drained(self, written: Written) -> bool:
        try:
            borders = self.audit.borders(written.topic)
        except (KafkaError, OSError):
            return False
        borders.require_order()
        waits = written.bytes_from(borders.tiered_end)
        return waits <= SEGMENT_BYTES and borders.local_start == max(borders.tiered_end, borders.log_start)

    def describe(self, topic: str) -> tuple[int, int]:
        """Return leader and number of in-sync replicas from the first node that responds."""

        async def request_watermarks() -> tuple[int, int]:
            async with Admin(self.cluster.bootstrap_servers, request_timeout_ms=3_000) as admin:
                description = (await admin.describe_topics([topic], timeout_ms=3_000))[topic]
            if isinstance(description, KafkaError):
                return -1, 0
            return description.partitions[0].leader, len(description.partitions[0].in_sync_replicas)

        with suppress(KafkaError, OSError, TimeoutError):
            return asyncio.run(request_watermarks())
        return -1, 0
