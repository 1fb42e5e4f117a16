"""Brokers of Apache Kafka and of Tidelog that share remote storage: one bucket, one metadata topic.

Apache Kafka's brokers run Aiven's RemoteStorageManager from `TIDELOG_AIVEN_CLASSPATH`; brokers of both
kinds have the same configuration text.
"""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from tests.kafka.kafka_node import MixedCluster, Node
from tests.kafka.mixed_clients import MixedClients
from tests.kafka.tools import MAIN_CLASSES
from tests.reference_software.kafka_programs import WITHIN_S, Engine
from tests.support.network.raw_client import RawClient
from tests.support.tier.aiven_plugin import FILE_SYSTEM, PLUGIN
from tests.support.waiting import wait_until
from tidelog.clients.admin.admin import Admin, ElectionType
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

METADATA_TOPIC = "__remote_log_metadata"
METADATA_PARTITIONS = 3
KAFKA, OURS, OTHER = 3, 1, 2
EARLIEST, EARLIEST_LOCAL, LATEST_TIERED = -2, -4, -5
FETCH_VERSION = 12
"""The last version with names of topics."""
SEGMENT_BYTES = 1 << 20
TIERED = {
    "remote_storage_enable": "true",
    "segment_bytes": str(SEGMENT_BYTES),
    "retention_ms": "-1",
    "local_retention_ms": "-1",
    "local_retention_bytes": "1",
}

_BASE_OFFSET, _LENGTH, _LAST_DELTA = (struct.Struct(each) for each in (">q", ">i", ">i"))
ResultT = TypeVar("ResultT")


def tiered_settings(bucket: Path) -> dict[str, str]:
    """Return the settings of remote storage for brokers of both kinds."""
    topic = "rlmm.config.remote.log.metadata.topic"
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": PLUGIN,
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rsm.config.storage.backend.class": FILE_SYSTEM,
        "rsm.config.storage.root": str(bucket),
        "rsm.config.key.prefix": "tier/",
        "rsm.config.chunk.size": "100000",
        "rsm.config.compression.enabled": "true",
        f"{topic}.num.partitions": str(METADATA_PARTITIONS),
        f"{topic}.replication.factor": "1",
        f"{topic}.min.isr": "1",
        "remote.log.manager.task.interval.ms": "500",
        "log.retention.check.interval.ms": "500",
        "log.initial.task.delay.ms": "500",
        "log.flush.start.offset.checkpoint.interval.ms": "500",
        "replica.fetch.backoff.ms": "200",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }


class MixedTier:
    """A Tidelog controller, broker 3 of Apache Kafka, Tidelog brokers 1 and 2, and their bucket."""

    def __init__(self, root: Path) -> None:
        self.bucket = root / "bucket"
        self.bucket.mkdir()
        plugin = os.environ["TIDELOG_AIVEN_CLASSPATH"].split(os.pathsep)
        self.cluster = MixedCluster(root, settings=tiered_settings(self.bucket), plugins=plugin)
        self.clients = MixedClients(self.cluster)
        self.controller = self.cluster.add(100, Engine.TIDELOG, "controller")
        self.brokers = {
            OURS: self.cluster.add(OURS, Engine.TIDELOG, "broker"),
            OTHER: self.cluster.add(OTHER, Engine.TIDELOG, "broker"),
            KAFKA: self.cluster.add(KAFKA, Engine.KAFKA, "broker"),
        }

    def start(self, first: int) -> None:
        """Start all; broker `first` creates the metadata topic before the others start."""
        for node in self.cluster.nodes.values():
            self.cluster.format(node)
        self.cluster.start(self.controller, self.brokers[first])
        self.clients.wait_for_brokers(first)
        wait_until(
            lambda: METADATA_TOPIC in self.clients.admin().list_topics(timeout=10).topics, timeout_s=WITHIN_S
        )
        self.cluster.start(*(node for number, node in self.brokers.items() if number != first))
        self.clients.wait_for_brokers(*self.brokers)
        # The coordinator of transactions does not change.
        self.clients.create_topic("__transaction_state", [[KAFKA]], cleanup_policy="compact")
        for index in range(METADATA_PARTITIONS):
            self.place(METADATA_TOPIC, [first, KAFKA if first == OURS else OURS], index)

    def send_request(self, question: Callable[[Admin], Awaitable[ResultT]]) -> ResultT:
        """Return the result of a call of our admin client."""

        async def send() -> ResultT:
            async with Admin(self.cluster.bootstrap_servers) as admin:
                return await question(admin)

        return asyncio.run(send())

    def place(self, topic: str, replicas: Sequence[int], index: int = 0) -> None:
        """Assign these replicas to the partition, all in sync, with the first one as leader."""
        name = TopicPartition(topic, index)

        async def move(admin: Admin) -> None:
            assert (await admin.alter_partition_reassignments({name: list(replicas)}))[name] is None

        async def elect(admin: Admin) -> None:
            await admin.elect_leaders(ElectionType.PREFERRED, [name])

        self.send_request(move)
        wait_until(lambda: self._is_placed(topic, replicas, index), timeout_s=WITHIN_S)
        self.send_request(elect)
        wait_until(lambda: self.clients.leader(topic, index).number == replicas[0], timeout_s=WITHIN_S)

    def _is_placed(self, topic: str, replicas: Sequence[int], index: int) -> bool:
        placed = self.clients.partition(topic, index)
        return placed is not None and placed.replicas == list(replicas) and set(placed.isrs) == set(replicas)

    def offset(self, topic: str, timestamp: int) -> int:
        """Return the offset that the leader of partition 0 returns to ListOffsets."""
        name = TopicPartition(topic, 0)

        async def list_offset(admin: Admin) -> int:
            listed_offset = (await admin.list_offsets({name: timestamp}))[name]
            assert not isinstance(listed_offset, Exception), listed_offset
            return listed_offset.offset

        return self.send_request(list_offset)

    def objects(self, topic: str) -> set[str]:
        """Return the objects of the topic in the bucket, by name."""
        # Unlike rglob, os.walk tolerates directories that are removed meanwhile.
        walk = os.walk(self.bucket)
        return {name for folder, _, names in walk for name in names if f"/{topic}-" in folder}

    def segments(self, node: Node, topic: str) -> list[int]:
        """Return the base offsets of the segments that a broker has on disk."""
        return sorted(int(path.stem) for path in (node.directory / f"{topic}-0").glob("*.log"))

    def wait_until_tiered(self, topic: str, *replicas: int) -> int:
        """Wait until these brokers have only the active segment; return its base offset."""

        def is_tiered() -> bool:
            tiered = self.offset(topic, LATEST_TIERED)
            return all(self.segments(self.brokers[each], topic) == [tiered + 1] for each in replicas)

        wait_until(is_tiered, timeout_s=WITHIN_S)
        return self.offset(topic, LATEST_TIERED) + 1

    def checkpoint(self, number: int, topic: str) -> str:
        """Return the leader epochs in a broker's checkpoint of the partition."""
        return (self.brokers[number].directory / f"{topic}-0" / "leader-epoch-checkpoint").read_text()

    def dump(self, number: int, topic: str, name: str, *options: str) -> list[str]:
        """Return Apache Kafka's dump of a file of the partition, without the line that names the file."""
        path = self.brokers[number].directory / f"{topic}-0" / name
        text = self.cluster.tool(MAIN_CLASSES["kafka-dump-log"], *options, "--files", str(path))
        assert text, f"{path} cannot be read"
        return text.splitlines()[1:]

    def raw(self, topic: str, end: int) -> bytes:
        """Return the bytes that the leader serves from offset 0 up to `end`, which begins a batch."""
        host, port = self.clients.leader(topic).address.split(":")
        offset, read = 0, bytearray()
        with RawClient(host, int(port)) as client:
            while offset < end:
                partition_request = FetchPartition(fetch_offset=offset, partition_max_bytes=300_000)
                topics = (FetchTopic(topic=topic, partitions=(partition_request,)),)
                request = FetchRequest(
                    max_wait_ms=500, min_bytes=1, max_bytes=300_000, topics=topics, session_epoch=-1
                )
                response = client.send_request(request, FETCH_VERSION, FetchResponse)
                (partition,) = response.responses[0].partitions
                assert partition.error_code == 0, f"offset {offset}: error {partition.error_code}"
                for batch in whole_batches(bytes(partition.records or b"")):
                    base, last = _BASE_OFFSET.unpack_from(batch)[0], _LAST_DELTA.unpack_from(batch, 23)[0]
                    if base + last >= offset and base < end:
                        read += batch
                        offset = base + last + 1
        return bytes(read)


def whole_batches(data: bytes) -> Iterator[bytes]:
    """Return the complete batches of `data`."""
    position = 0
    while position + 12 <= len(data):
        size = 12 + _LENGTH.unpack_from(data, position + 8)[0]
        if position + size > len(data):
            return
        yield data[position : position + size]
        position += size
