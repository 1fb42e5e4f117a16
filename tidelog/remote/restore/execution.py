"""Restores planned topics in a cluster, without copying data (shell).

    store      store segments that are copied: only for a topic as of a time, at most one of each partition
    register   write the records of the segments to `__remote_log_metadata`; nothing reads them yet
    create     create the topic with its old id: its leaders recover their logs from the registered segments
    verify     wait until the leaders have the planned offsets
    release    advance the start of the log above segments of the source that were deleted meanwhile
    abort      end the transactions whose end was lost

The order makes an interruption harmless: no leader of the topic exists before its metadata is complete. A
repeated restore continues where the first one ended.

Errors: KafkaError; RestoreError for a topic that cannot be restored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any, Final

from tidelog.base.dataclass import dataclass
from tidelog.clients.admin.admin import Admin, OffsetSpec
from tidelog.clients.admin.types import NewTopic, TopicDescription
from tidelog.clients.producer.producer import Producer
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset, TopicPartition, uuid_text
from tidelog.remote.inspection.broker_queries import BrokerQueries
from tidelog.remote.inspection.bucket import Bucket
from tidelog.remote.inspection.cluster import Gatherer
from tidelog.remote.inspection.history import MetadataHistory
from tidelog.remote.metadata.config import METADATA_TOPIC
from tidelog.remote.metadata.partitioning import metadata_partition
from tidelog.remote.metadata.record_codec import encode_event
from tidelog.remote.restore.plan import TopicPlan
from tidelog.remote.restore.references import first_existing_offsets, foreign_brokers, store_tails
from tidelog.remote.restore.registration import missing_records, registration_obstacles

_CHECK_S: Final = 0.2
_METADATA_TOPIC_CHECKS: Final = 75
_IN_FLIGHT: Final = 1_000
"""The records that are in flight to the metadata topic at a time."""

Progress = Callable[[str, int], None]
"""Called with the name of a step and the number of its parts that are complete."""


class RestoreError(Exception):
    """A topic cannot be restored; the text is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The cluster in which topics are restored, and the options of its clients.

    `wait_s` limits the time in which the leaders of one topic must recover their logs.
    """

    admin: Admin
    bucket: Bucket
    bootstrap_servers: str
    consumer_options: Mapping[str, Any]
    producer_options: Mapping[str, Any]
    wait_s: float = 300.0


@dataclass(slots=True)
class RestoreOutcome:
    """The offsets of a restored topic as its leaders report them, and the aborted transactions."""

    offsets: dict[TopicPartition, tuple[Offset, Offset]] = field(default_factory=dict)
    aborted: list[tuple[TopicPartition, int]] = field(default_factory=list)


class TopicRestore:
    """Restores one topic."""

    def __init__(self, target: Target, plan: TopicPlan) -> None:
        self._target = target
        self._plan = plan
        self._queries = BrokerQueries(target.admin)

    async def obstacles(self) -> list[str]:
        """Return why the cluster cannot accept the topic. The controller checks it, and creates nothing."""
        plan = self._plan
        if plan.problems:
            return list(plan.problems)
        try:
            if await self._existing() is not None:
                return []
            if plan.segment_count and not await self._has_metadata_topic():
                return [f"{plan.name}: the cluster has no topic {METADATA_TOPIC}: enable tiered storage"]
            if plan.source is not None and (text := await foreign_brokers(self._target.admin)):
                return [f"{plan.name}: {text}"]
            history = await self._history()
            found = [
                text
                for partition in plan.partitions
                for text in registration_obstacles(partition, history.of(partition.partition))
            ]
            if not found:
                await self._create(validate_only=True)
        except RestoreError as error:
            return [str(error)]
        return found

    async def run(self, on_progress: Progress) -> RestoreOutcome:
        """Restore the topic, or continue an interrupted restore."""
        obstacles = await self.obstacles()
        if obstacles:
            raise RestoreError(obstacles[0])
        if await self._existing() is None:
            await asyncio.to_thread(store_tails, self._target.bucket, self._plan)
            await self._register(on_progress)
            await self._create(validate_only=False)
        on_progress("recover", 0)
        outcome = RestoreOutcome()
        async with asyncio.timeout(self._target.wait_s):
            await self._verify(outcome)
            if self._plan.source is not None:
                await self._release(outcome)
            await self._abort(outcome)
        return outcome

    # --- the topic ------------------------------------------------------------------------

    async def _existing(self) -> TopicDescription | None:
        """Return the topic if an earlier run has created it. Raise RestoreError for another one."""
        plan = self._plan
        topics = await self._queries.existing_topics([plan.name])
        if not topics:
            return None
        if topics[0].topic_id != plan.topic_id:
            raise RestoreError(
                f"{plan.name}: the cluster has a topic of this name with id {uuid_text(topics[0].topic_id)}, "
                f"the segments have id {uuid_text(plan.topic_id)}; delete the topic if a client created it "
                "(auto.create.topics.enable)"
            )
        return topics[0]

    async def _create(self, *, validate_only: bool) -> None:
        plan = self._plan
        topic = NewTopic(
            name=plan.name,
            num_partitions=len(plan.partitions),
            replication_factor=plan.replication_factor,
            configs={**plan.configs, **plan.identity.configs},
        )
        created = (await self._target.admin.create_topics([topic], validate_only=validate_only))[plan.name]
        if isinstance(created, KafkaError):
            if created.code is ErrorCode.TOPIC_ALREADY_EXISTS and await self._existing() is not None:
                return  # the response to an earlier attempt was lost
            raise RestoreError(f"{plan.name}: {created}")
        if not validate_only and created.topic_id != plan.topic_id:
            raise RestoreError(
                f"{plan.name}: the controller created another id: {uuid_text(created.topic_id)}; "
                "it does not support restored topics"
            )

    # --- the metadata of segments ---------------------------------------------------------

    async def _has_metadata_topic(self) -> bool:
        """Return whether the metadata topic exists; brokers create it soon after their start."""
        for _ in range(_METADATA_TOPIC_CHECKS):
            if await self._queries.metadata_partition_count():
                return True
            await asyncio.sleep(_CHECK_S)
        return False

    async def _history(self) -> MetadataHistory:
        if not self._plan.segment_count:
            return MetadataHistory()
        target = self._target
        gatherer = Gatherer(target.admin, target.bootstrap_servers, target.consumer_options)
        return await gatherer.history([each.partition for each in self._plan.partitions])

    async def _register(self, on_progress: Progress) -> None:
        if not self._plan.segment_count:
            return
        history = await self._history()
        count = await self._queries.metadata_partition_count()
        options = {**self._target.producer_options, "acks": "all", "enable_idempotence": True}
        done = 0
        async with Producer(self._target.bootstrap_servers, **options) as producer:
            for each in self._plan.partitions:
                number = metadata_partition(each.partition, count)
                pending = []
                for event in missing_records(each, history.of(each.partition)):
                    pending.append(await producer.send(METADATA_TOPIC, encode_event(event), partition=number))
                    if len(pending) == _IN_FLIGHT:
                        await _wait_for(pending)
                await _wait_for(pending)
                done += len(each.segments)
                on_progress("register", done)

    # --- the recovered logs ---------------------------------------------------------------

    async def _verify(self, outcome: RestoreOutcome) -> None:
        """Wait until every leader has recovered its log. Raise RestoreError if one ends before the plan."""
        names = {each.partition.topic_partition: each for each in self._plan.partitions}
        starts = await self._offsets(names, OffsetSpec.EARLIEST)
        ends = await self._offsets(names, OffsetSpec.LATEST)
        for name, planned in names.items():
            outcome.offsets[name] = (starts[name], ends[name])
            if ends[name] < planned.end_offset:
                raise RestoreError(
                    f"{name}: the leader's log ends at {ends[name]}, the segments at {planned.end_offset}"
                )

    async def _release(self, outcome: RestoreOutcome) -> None:
        """Advance the start of the log above segments that the source deleted before it had a reference."""
        starts = await asyncio.to_thread(first_existing_offsets, self._target.bucket, self._plan)
        lost = {name: start for name, start in starts.items() if outcome.offsets[name][0] < start}
        if not lost:
            return
        for name, result in (await self._target.admin.delete_records(lost)).items():
            if isinstance(result, KafkaError):
                raise result
            outcome.offsets[name] = (lost[name], outcome.offsets[name][1])

    async def _offsets(
        self, names: Iterable[TopicPartition], spec: OffsetSpec
    ) -> dict[TopicPartition, Offset]:
        offsets: dict[TopicPartition, Offset] = {}
        remaining = set(names)
        while remaining:
            listed = await self._target.admin.list_offsets(dict.fromkeys(remaining, int(spec)))
            for name, one in listed.items():
                if not isinstance(one, KafkaError):
                    offsets[name] = one.offset
                    remaining.discard(name)
                elif not one.code.retriable:
                    raise one
            if remaining:
                await asyncio.sleep(_CHECK_S)
        return offsets

    async def _abort(self, outcome: RestoreOutcome) -> None:
        """Abort the transactions that were open at the restored end: their coordinator does not know them."""
        for each in self._plan.partitions:
            name = each.partition.topic_partition
            lost = {one.producer_id: one.transaction_first_offset for one in each.open_transactions}
            while lost:
                producers = (await self._target.admin.describe_producers([name]))[name]
                if isinstance(producers, KafkaError):
                    raise producers
                still_open = [
                    one
                    for one in producers
                    if one.current_transaction_start_offset is not None
                    and lost.get(one.producer_id) == one.current_transaction_start_offset
                ]
                if not still_open:
                    break
                for one in still_open:
                    await self._abort_one(name, one.producer_id, one.producer_epoch, one.coordinator_epoch)
                    outcome.aborted.append((name, one.producer_id))

    async def _abort_one(
        self, name: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int
    ) -> None:
        while True:
            try:
                await self._target.admin.abort_transaction(
                    name, producer_id, producer_epoch, coordinator_epoch
                )
                return
            except KafkaError as error:
                if not error.code.retriable:
                    raise
                await asyncio.sleep(_CHECK_S)


async def _wait_for(pending: list[Any]) -> None:
    for delivery in pending:
        await delivery
    pending.clear()
