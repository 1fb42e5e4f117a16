"""One group with members of three libraries that commit their positions, across all restarts."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as ConfluentTopicPartition

from tests.harness.soak.consumers import MOST_PER_POLL, POLL_S, by_partition, record_polls
from tests.harness.soak.history import History
from tidelog import Consumer
from tidelog.clients.groups.rebalance_listener import NoListener
from tidelog.local_cluster.client_settings import ClientSettings
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import TopicPartition

GROUP = "soak-group"
COMMIT_EVERY_S = 1.0
QUERY_EVERY_S = 2.0
SESSION_TIMEOUT_MS = 20_000


class CommitRecorder:
    """Records a member's polls and commits in the history, and schedules its commits."""

    def __init__(self, history: History, process: str) -> None:
        self._history = history
        self._process = process
        self._next: dict[int, int] = {}
        self._next_commit_s = time.monotonic() + COMMIT_EVERY_S

    def on_records(self, partition: int, records: list[tuple[int, bytes | None]]) -> None:
        """Record polled records."""
        record_polls(self._history, self._process, partition, records)
        self._next[partition] = records[-1][0] + 1

    def on_assignment(self, partitions: Sequence[int]) -> None:
        """Record assigned partitions."""
        self._history.add(self._process, "assign", "ok", list(partitions))

    def on_revocation(self, partitions: Sequence[int]) -> None:
        """Record revoked partitions; they are read again from the committed offsets."""
        for partition in partitions:
            self._next.pop(partition, None)

    def begin_commit(self) -> list[tuple[int, int]]:
        """Return the offsets to commit now; empty between two commits."""
        now = time.monotonic()
        if now < self._next_commit_s or not self._next:
            return []
        self._next_commit_s = now + COMMIT_EVERY_S
        offsets = sorted(self._next.items())
        self._history.add(self._process, "commit", "invoke", offsets)
        return offsets

    def end_commit(self, offsets: list[tuple[int, int]], *, is_ok: bool) -> None:
        """Record the result of the commit."""
        self._history.add(self._process, "commit", "ok" if is_ok else "info", offsets)


async def run_confluent(clients: ClientSettings, topic: str, history: History, stop: threading.Event) -> None:
    """Run a member of librdkafka until `stop` is set."""
    settings = {"partition.assignment.strategy": "range", "session.timeout.ms": SESSION_TIMEOUT_MS}
    recorder = CommitRecorder(history, f"{GROUP}/confluent")
    await asyncio.to_thread(run_librdkafka, clients, topic, GROUP, settings, recorder, stop.is_set)


def run_librdkafka(
    clients: ClientSettings,
    topic: str,
    group: str,
    settings: Mapping[str, Any],
    recorder: CommitRecorder,
    must_stop: Callable[[], bool],
) -> None:
    """Join a group with librdkafka, read and commit, and leave when `must_stop` returns true."""

    def numbers(topic_partitions: list[Any]) -> list[int]:
        return [each.partition for each in topic_partitions]

    consumer = ConfluentConsumer(
        {
            **clients.confluent_kafka,
            **settings,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
    )
    consumer.subscribe(
        [topic],
        on_assign=lambda _, topic_partitions: recorder.on_assignment(numbers(topic_partitions)),
        on_revoke=lambda _, topic_partitions: recorder.on_revocation(numbers(topic_partitions)),
    )
    while not must_stop():
        for partition, records in by_partition(consumer.consume(MOST_PER_POLL, POLL_S)).items():
            recorder.on_records(partition, records)
        if offsets := recorder.begin_commit():
            topic_partitions = [ConfluentTopicPartition(topic, *entry) for entry in offsets]
            try:
                results = consumer.commit(offsets=topic_partitions, asynchronous=False)
                recorder.end_commit(offsets, is_ok=all(each.error is None for each in results))
            except KafkaException:
                recorder.end_commit(offsets, is_ok=False)
    consumer.close()


class _AioListener(ConsumerRebalanceListener):
    def __init__(self, recorder: CommitRecorder) -> None:
        self._recorder = recorder

    def on_partitions_assigned(self, assigned: set[Any]) -> None:
        self._recorder.on_assignment([each.partition for each in assigned])

    def on_partitions_revoked(self, revoked: set[Any]) -> None:
        self._recorder.on_revocation([each.partition for each in revoked])


async def run_aiokafka(clients: ClientSettings, topic: str, history: History, stop: threading.Event) -> None:
    """Run a member of aiokafka until `stop` is set."""
    recorder = CommitRecorder(history, f"{GROUP}/aiokafka")
    consumer = AIOKafkaConsumer(
        **clients.aiokafka,
        group_id=GROUP,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=(RangePartitionAssignor,),
        session_timeout_ms=SESSION_TIMEOUT_MS,
    )
    consumer.subscribe([topic], listener=_AioListener(recorder))
    await consumer.start()
    while not stop.is_set():
        batches = await consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=MOST_PER_POLL)
        for topic_partition, records in batches.items():
            recorder.on_records(topic_partition.partition, _offsets_and_values(records))
        if offsets := recorder.begin_commit():
            try:
                await consumer.commit({AioTopicPartition(topic, part): offset for part, offset in offsets})
                recorder.end_commit(offsets, is_ok=True)
            except AioKafkaError:
                recorder.end_commit(offsets, is_ok=False)
    await consumer.stop()


class _TidelogListener(NoListener):
    def __init__(self, recorder: CommitRecorder) -> None:
        self._recorder = recorder

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._recorder.on_assignment([each.partition for each in partitions])

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._recorder.on_revocation([each.partition for each in partitions])

    on_partitions_lost = on_partitions_revoked


async def run_tidelog(clients: ClientSettings, topic: str, history: History, stop: threading.Event) -> None:
    """Run a member of our own client until `stop` is set."""
    settings = {"partition_assignment_strategy": ("range",), "session_timeout_ms": SESSION_TIMEOUT_MS}
    await run_own(clients, topic, GROUP, settings, CommitRecorder(history, f"{GROUP}/own"), stop)


async def run_own(
    clients: ClientSettings,
    topic: str,
    group: str,
    settings: Mapping[str, Any],
    recorder: CommitRecorder,
    stop: threading.Event,
) -> None:
    """Join a group with our own client, read and commit until `stop` is set."""
    async with Consumer(
        **clients.tidelog,
        **settings,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        consumer.subscribe([topic], listener=_TidelogListener(recorder))
        while not stop.is_set():
            for topic_partition, records in (await consumer.poll(int(POLL_S * 1000), MOST_PER_POLL)).items():
                recorder.on_records(topic_partition.partition, _offsets_and_values(records))
            if offsets := recorder.begin_commit():
                try:
                    await consumer.commit({TopicPartition(topic, part): offset for part, offset in offsets})
                    recorder.end_commit(offsets, is_ok=True)
                except KafkaError:
                    recorder.end_commit(offsets, is_ok=False)


async def query_committed_offsets(
    clients: ClientSettings, topic: str, history: History, group: str, partitions: int, stop: threading.Event
) -> None:
    """Query a group's committed offsets regularly from outside, until `stop` is set, and once more."""
    process = f"{group}/query"
    topic_partitions = [TopicPartition(topic, index) for index in range(partitions)]
    async with Consumer(**clients.tidelog, group_id=group, enable_auto_commit=False) as consumer:
        is_last = False
        while not is_last:
            is_last = stop.is_set()
            history.add(process, "committed", "invoke")
            try:
                offsets = await consumer.committed(topic_partitions)
            except KafkaError:
                continue
            entries = [(key.partition, entry.offset) for key, entry in offsets.items() if entry is not None]
            history.add(process, "committed", "ok", entries)
            if not is_last:
                await asyncio.sleep(QUERY_EVERY_S)


def _offsets_and_values(records: Iterable[Any]) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.value) for record in records]


MEMBERS = (run_confluent, run_aiokafka, run_tidelog)
