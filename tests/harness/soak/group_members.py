"""One group with members of three libraries that commit the offsets they read, across all restarts."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as ConfluentTopicPartition

from tests.harness.soak.consumers import MOST_PER_POLL, POLL_S, by_partition, note_records
from tests.harness.soak.history import History
from tidelog import Consumer
from tidelog.clients.groups.rebalance_listener import NoListener
from tidelog.local_cluster.client_settings import ClientSettings
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import TopicPartition

GROUP = "soak-group"
COMMIT_EVERY_S = 1.0
QUESTION_EVERY_S = 2.0
SESSION_TIMEOUT_MS = 20_000


class Commits:
    """The read and uncommitted offsets of a member."""

    def __init__(self, history: History, process: str) -> None:
        self._history = history
        self._process = process
        self._next: dict[int, int] = {}
        self._due = time.monotonic() + COMMIT_EVERY_S

    def read(self, partition: int, records: list[tuple[int, bytes | None]]) -> None:
        """Record polled records."""
        note_records(self._history, self._process, partition, records)
        self._next[partition] = records[-1][0] + 1

    def assigned(self, partitions: Sequence[int]) -> None:
        """Record assigned partitions."""
        self._history.add(self._process, "assign", "ok", list(partitions))

    def revoked(self, partitions: Sequence[int]) -> None:
        """Record revoked partitions; they are read again from the committed offsets."""
        for partition in partitions:
            self._next.pop(partition, None)

    def begin(self) -> list[tuple[int, int]]:
        """Return the offsets to commit now, usually none."""
        now = time.monotonic()
        if now < self._due or not self._next:
            return []
        self._due = now + COMMIT_EVERY_S
        offsets = sorted(self._next.items())
        self._history.add(self._process, "commit", "invoke", offsets)
        return offsets

    def end(self, offsets: list[tuple[int, int]], *, is_ok: bool) -> None:
        """Record the result of the commit."""
        self._history.add(self._process, "commit", "ok" if is_ok else "info", offsets)


async def run_confluent(clients: ClientSettings, topic: str, history: History, stop: threading.Event) -> None:
    """Run a member of librdkafka until `stop` is set."""
    commits = Commits(history, f"{GROUP}/confluent")

    def numbers(places: list[Any]) -> list[int]:
        return [place.partition for place in places]

    def work() -> None:
        consumer = ConfluentConsumer(
            {
                **clients.confluent_kafka,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "partition.assignment.strategy": "range",
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        consumer.subscribe(
            [topic],
            on_assign=lambda _, places: commits.assigned(numbers(places)),
            on_revoke=lambda _, places: commits.revoked(numbers(places)),
        )
        while not stop.is_set():
            for partition, records in by_partition(consumer.consume(MOST_PER_POLL, POLL_S)).items():
                commits.read(partition, records)
            if offsets := commits.begin():
                places = [ConfluentTopicPartition(topic, partition, offset) for partition, offset in offsets]
                try:
                    done = consumer.commit(offsets=places, asynchronous=False)
                    commits.end(offsets, is_ok=all(place.error is None for place in done))
                except KafkaException:
                    commits.end(offsets, is_ok=False)
        consumer.close()

    await asyncio.to_thread(work)


class _AioListener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, commits: Commits) -> None:
        self._commits = commits

    def on_partitions_assigned(self, assigned: set[Any]) -> None:
        self._commits.assigned([place.partition for place in assigned])

    def on_partitions_revoked(self, revoked: set[Any]) -> None:
        self._commits.revoked([place.partition for place in revoked])


async def run_aiokafka(clients: ClientSettings, topic: str, history: History, stop: threading.Event) -> None:
    """Run a member of aiokafka until `stop` is set."""
    commits = Commits(history, f"{GROUP}/aiokafka")
    consumer = AIOKafkaConsumer(
        **clients.aiokafka,
        group_id=GROUP,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=(RangePartitionAssignor,),
        session_timeout_ms=SESSION_TIMEOUT_MS,
    )
    consumer.subscribe([topic], listener=_AioListener(commits))
    await consumer.start()
    while not stop.is_set():
        polled = await consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=MOST_PER_POLL)
        for place, records in polled.items():
            commits.read(place.partition, [(record.offset, record.value) for record in records])
        if offsets := commits.begin():
            try:
                await consumer.commit({AioTopicPartition(topic, part): offset for part, offset in offsets})
                commits.end(offsets, is_ok=True)
            except AioKafkaError:
                commits.end(offsets, is_ok=False)
    await consumer.stop()


class _OwnListener(NoListener):
    def __init__(self, commits: Commits) -> None:
        self._commits = commits

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._commits.assigned([place.partition for place in partitions])

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._commits.revoked([place.partition for place in partitions])

    on_partitions_lost = on_partitions_revoked


async def run_own(clients: ClientSettings, topic: str, history: History, stop: threading.Event) -> None:
    """Run a member of our own client until `stop` is set."""
    commits = Commits(history, f"{GROUP}/own")
    async with Consumer(
        **clients.tidelog,
        group_id=GROUP,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=("range",),
        session_timeout_ms=SESSION_TIMEOUT_MS,
    ) as consumer:
        consumer.subscribe([topic], listener=_OwnListener(commits))
        while not stop.is_set():
            for place, records in (await consumer.poll(int(POLL_S * 1000), MOST_PER_POLL)).items():
                commits.read(place.partition, [(record.offset, record.value) for record in records])
            if offsets := commits.begin():
                try:
                    await consumer.commit({TopicPartition(topic, part): offset for part, offset in offsets})
                    commits.end(offsets, is_ok=True)
                except KafkaError:
                    commits.end(offsets, is_ok=False)


async def ask_committed(
    clients: ClientSettings, topic: str, history: History, partitions: int, stop: threading.Event
) -> None:
    """Query the group's committed offsets regularly from outside, until `stop` is set, and once more."""
    process = f"{GROUP}/question"
    places = [TopicPartition(topic, index) for index in range(partitions)]
    async with Consumer(**clients.tidelog, group_id=GROUP, enable_auto_commit=False) as consumer:
        is_last = False
        while not is_last:
            is_last = stop.is_set()
            history.add(process, "committed", "invoke")
            try:
                found = await consumer.committed(places)
            except KafkaError:
                continue
            answer = [(place.partition, at.offset) for place, at in found.items() if at is not None]
            history.add(process, "committed", "ok", answer)
            if not is_last:
                await asyncio.sleep(QUESTION_EVERY_S)


MEMBERS = (run_confluent, run_aiokafka, run_own)
