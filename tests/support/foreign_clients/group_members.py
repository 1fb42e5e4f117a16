"""Members of one group with the clients of five authors: what each owns, and what it has received."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from confluent_kafka import Consumer as LibrdkafkaConsumer
from kafka import KafkaConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor as PythonRangeAssignor

from tidelog import Consumer

VERIFIABLE_CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"
HEARTBEAT_MS = 300
POLL_INTERVAL_MS = 15_000
"""Members that are closed one after the other wait at most so long for one that is not polled any more."""
STOP_S = 60


class GroupMember(ABC):
    """One member of the group `group` that reads the topic `topic`."""

    def __init__(self, servers: str, group: str, topic: str) -> None:
        self.servers, self.group, self.topic = servers, group, topic
        self.received: list[tuple[int, int]] = []
        """Partition and offset of each record."""

    @property
    @abstractmethod
    def partitions(self) -> set[int]:
        """The partitions that it owns."""

    @abstractmethod
    def poll(self) -> None:
        """Poll once, unless the client polls by itself."""

    @abstractmethod
    def close(self) -> None:
        """Leave the group."""

    def add(self, records: Iterable[Any]) -> None:
        """Add received records with the attributes `partition` and `offset`."""
        self.received += [(record.partition, record.offset) for record in records]


class PythonMember(GroupMember):
    """A classic member of kafka-python."""

    def __init__(self, servers: str, group: str, topic: str) -> None:
        super().__init__(servers, group, topic)
        self._consumer = KafkaConsumer(
            topic,
            bootstrap_servers=servers,
            group_id=group,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=HEARTBEAT_MS,
            max_poll_interval_ms=POLL_INTERVAL_MS,
            partition_assignment_strategy=[PythonRangeAssignor],
        )

    @property
    def partitions(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def poll(self) -> None:
        for records in self._consumer.poll(20).values():
            self.add(records)

    def close(self) -> None:
        self._consumer.close()


class LibrdkafkaMember(GroupMember):
    """A member of librdkafka."""

    def __init__(self, servers: str, group: str, topic: str, **options: str | int) -> None:
        super().__init__(servers, group, topic)
        self._consumer = LibrdkafkaConsumer(
            {
                "bootstrap.servers": servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "log_level": 0,
                **options,
            }
        )
        self._consumer.subscribe([topic])

    @classmethod
    def classic(cls, servers: str, group: str, topic: str) -> LibrdkafkaMember:
        """Return a classic member."""
        options: dict[str, str | int] = {
            "partition.assignment.strategy": "range",
            "heartbeat.interval.ms": HEARTBEAT_MS,
        }
        return cls(servers, group, topic, **options)

    @classmethod
    def new(cls, servers: str, group: str, topic: str) -> LibrdkafkaMember:
        """Return a member with the consumer protocol."""
        return cls(servers, group, topic, **{"group.protocol": "consumer"})

    @property
    def partitions(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def poll(self) -> None:
        for message in self._consumer.consume(500, 0.02):
            assert message.error() is None, message.error()
            partition, offset = message.partition(), message.offset()
            assert partition is not None and offset is not None
            self.received.append((partition, offset))

    def close(self) -> None:
        self._consumer.close()


class _LoopMember(GroupMember):
    """A member of an asyncio client, in a thread with an event loop."""

    def __init__(self, servers: str, group: str, topic: str) -> None:
        super().__init__(servers, group, topic)
        self._stop = threading.Event()
        self._partitions: set[int] = set()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._thread.start()

    @property
    def partitions(self) -> set[int]:
        return self._partitions

    def poll(self) -> None:
        """Do nothing: the thread polls."""

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    @abstractmethod
    async def _run(self) -> None: ...


class AiokafkaMember(_LoopMember):
    """A classic member of aiokafka."""

    async def _run(self) -> None:
        consumer = AIOKafkaConsumer(
            self.topic,
            bootstrap_servers=self.servers,
            group_id=self.group,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=HEARTBEAT_MS,
            partition_assignment_strategy=(RangePartitionAssignor,),
        )
        await consumer.start()
        while not self._stop.is_set():
            for records in (await consumer.getmany(timeout_ms=50)).values():
                self.add(records)
            self._partitions = {each.partition for each in consumer.assignment()}
        await consumer.stop()


class TidelogMember(_LoopMember):
    """A member of Tidelog's client with the consumer protocol."""

    async def _run(self) -> None:
        options: dict[str, Any] = {"group_protocol": "consumer", "auto_offset_reset": "earliest"}
        async with Consumer(self.servers, group_id=self.group, **options) as consumer:
            consumer.subscribe([self.topic])
            while not self._stop.is_set():
                for records in (await consumer.poll(50)).values():
                    self.received += [(record.partition, record.offset) for record in records]
                self._partitions = {each.partition for each in consumer.assignment()}


class JavaMember(GroupMember):
    """Kafka's verifiable consumer, which prints its assignments and what it has received as JSON."""

    def __init__(self, servers: str, group: str, topic: str, jars: Path, output: Path, protocol: str) -> None:
        super().__init__(servers, group, topic)
        arguments = ["--bootstrap-server", servers, "--topic", topic, "--group-id", group]
        arguments += ["--group-protocol", protocol, "--reset-policy", "earliest", "--enable-autocommit"]
        command = ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", VERIFIABLE_CONSUMER]
        self._output = output
        with output.open("wb") as file:
            self._process = subprocess.Popen([*command, *arguments], stdout=file, stderr=subprocess.DEVNULL)
        self._read_bytes = 0
        self._partitions: set[int] = set()

    @property
    def partitions(self) -> set[int]:
        return self._partitions

    def poll(self) -> None:
        """Read the new lines of its output."""
        with self._output.open("rb") as file:
            file.seek(self._read_bytes)
            data = file.read()
        complete = data[: data.rfind(b"\n") + 1]
        self._read_bytes += len(complete)
        for line in complete.splitlines():
            if line.startswith(b"{"):
                self._apply(json.loads(line))

    def _apply(self, event: dict[str, Any]) -> None:
        match event["name"]:
            case "partitions_assigned":
                self._partitions |= {each["partition"] for each in event["partitions"]}
            case "partitions_revoked":
                self._partitions -= {each["partition"] for each in event["partitions"]}
            case "records_consumed":
                for each in event["partitions"]:
                    offsets = range(each["minOffset"], each["maxOffset"] + 1)
                    self.received += [(each["partition"], offset) for offset in offsets]

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(STOP_S)
