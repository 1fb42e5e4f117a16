"""The consumer: reads partitions in order, alone or as a member of a group (shell).

    async with Consumer("localhost:9092", group_id="harbour", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["tides"])
        async for record in consumer:
            print(record.topic, record.partition, record.offset, record.value)

`poll` returns what is there as `{TopicPartition: [ConsumerRecord, ...]}`; `getone` and `async for` hand
out one record at a time. Group work that the application sees (rebalance listeners, changes of the
assignment, automatic commits) happens inside these calls only, so the records of the last call count
as processed when the next one begins.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

from clients.client import ClientBase
from clients.committed_offsets import fetch_committed
from clients.config import ConsumerConfig, make_config
from clients.connection import Authenticator
from clients.consumer_types import (
    ConsumerRecord,
    FetchPosition,
    OffsetAndMetadata,
    OffsetAndTimestamp,
)
from clients.coordinator_lookup import CoordinatorLookup
from clients.environment import Environment
from clients.fetch_driver import FetchDriver
from clients.fetcher import Fetcher
from clients.group_coordinator import GroupCoordinator
from clients.handed_out import HandedOut
from clients.leader_requests import ask_leaders
from clients.offset_committer import OffsetCommitter
from clients.offset_questions import OffsetsByTimestamp
from clients.partition_state import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    AssignedPartitions,
    FetchState,
    PartitionState,
)
from clients.rebalance_listener import RebalanceListener
from protocol.errors import ErrorCode, KafkaError
from protocol.ids import TopicPartition

Records = dict[TopicPartition, list[ConsumerRecord]]


class Consumer:
    """An asyncio consumer; use it as an async context manager, or call `start` and `close`.

    Options are those of `ConsumerConfig` (Kafka's names with underscores). One task uses it at a time.
    Errors: KafkaError everywhere. Bounds: see `Fetcher` for what is fetched ahead.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] = "localhost:9092",
        *,
        environment: Environment | None = None,
        authenticator: Authenticator | None = None,
        **options: Any,
    ) -> None:
        self.config = make_config(ConsumerConfig, {"bootstrap_servers": bootstrap_servers, **options})
        self._environment = environment
        self._authenticator = authenticator
        self._assigned = AssignedPartitions()
        self._handed_out = HandedOut(self._assigned)
        self._topics: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None
        self._group: GroupCoordinator | None = None
        self._lookup: CoordinatorLookup | None = None
        self._initializing: asyncio.Task[None] | None = None
        self._initialize_error: KafkaError | None = None
        self._started = False
        self._is_closed = False

    # --- life -----------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect to the cluster; KafkaError when none of the bootstrap servers answers in time."""
        assert not self._started, "a consumer is started once"
        config = self.config
        self._client = ClientBase(
            config,
            self._environment,
            self._authenticator,
            allow_auto_topic_creation=config.allow_auto_create_topics,
            forget_idle_topics=False,
        )
        client = self._client
        self._fetcher = Fetcher(config, self._assigned, client.metadata, client.environment.rng)
        self._driver = FetchDriver(client, config, self._assigned, self._fetcher)
        if config.group_id is not None:
            self._lookup = CoordinatorLookup(client, config.group_id)
            self._committer = OffsetCommitter(client, config, self._lookup, self._handed_out.positions)
        await client.open(client.now_ms() + config.default_api_timeout_ms)
        client.updater.on_update.append(self._on_metadata)
        self._driver.start()
        self._started = True

    async def __aenter__(self) -> Consumer:
        await self.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self, timeout_ms: int = 30_000) -> None:
        """Commit positions (with `enable_auto_commit`), leave the group and disconnect."""
        if not self._started or self._is_closed:
            return
        self._is_closed = True
        try:
            if self._group is not None:
                await self._group.close(timeout_ms)
            elif self._lookup is not None:
                await self._committer.auto_commit_now(self._client.now_ms() + timeout_ms)
        finally:
            if self._initializing is not None:
                self._initializing.cancel()
                await asyncio.wait({self._initializing})
            if self._lookup is not None:
                await self._committer.close()
            await self._driver.close()
            await self._client.close()

    # --- what to read ---------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read topics, by name or those whose name matches `pattern` as a whole, as a member of the group.

        Replaces an earlier subscription. Partitions come with the next calls of `poll`.
        """
        self._require_usable()
        config = self.config
        if config.group_id is None or self._lookup is None:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "subscribe needs group_id; use assign without one")
        if isinstance(topics, str):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"topics={topics!r}: give a list of names")
        self._topics = frozenset(topics)
        self._pattern = None if pattern is None else re.compile(pattern)
        if bool(self._topics) == (self._pattern is not None):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "subscribe needs either topics or a pattern")
        if self._group is None:
            if len(self._assigned):
                raise KafkaError(ErrorCode.INVALID_REQUEST, "subscribe and assign exclude each other")
            self._group = GroupCoordinator(
                self._client, config, self._lookup, self._committer, self._assigned, self._wake_poll
            )
        updater = self._client.updater
        updater.policy.wants_all_topics = self._pattern is not None
        if self._pattern is None:
            updater.set_topics(set(self._topics))
        else:
            self._topics = self._matching_topics()
            updater.request_update()
        self._group.subscribe(self._topics, listener)

    async def unsubscribe(self) -> None:
        """Leave the group, or drop what was assigned."""
        self._require_usable()
        if self._group is not None:
            group, self._group = self._group, None
            await group.close(self.config.request_timeout_ms)
        self._topics, self._pattern = frozenset(), None
        self._client.updater.policy.wants_all_topics = False
        self._assigned.set(())

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Read exactly these partitions, without a group's help; replaces an earlier assignment."""
        self._require_usable()
        if self._group is not None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "subscribe and assign exclude each other")
        wanted = [TopicPartition(topic, partition) for topic, partition in partitions]
        self._assigned.set(wanted)
        self._client.updater.set_topics({tp.topic for tp in wanted})
        self._driver.wake()

    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that are read now."""
        return self._assigned.topic_partitions

    def subscription(self) -> frozenset[str]:
        """The topics subscribed to, by name or by pattern."""
        return self._topics

    async def partitions_for(self, topic: str) -> tuple[int, ...]:
        """The partitions of `topic`; awaits its metadata."""
        await self._client.updater.ensure_topic(topic, self._deadline_ms())
        return tuple(self._client.metadata.topics[topic].partitions)

    # --- reading --------------------------------------------------------------------------

    async def poll(self, timeout_ms: int = 1_000, max_records: int | None = None) -> Records:
        """Records that are there, waiting at most `timeout_ms` for the first; empty when none came.

        At most `max_records` (else `max_poll_records`), each partition's in offset order.
        """
        self._require_usable()
        limit = self.config.max_poll_records if max_records is None else max_records
        deadline_ms = self._client.now_ms() + timeout_ms
        while True:
            self._driver.data_arrived.clear()
            await self._advance()
            records = self._handed_out.rest(limit)
            if not records:
                records = {state.topic_partition: taken for state, taken in self._fetcher.take(limit)}
            if records:
                self._driver.wake()
                return records
            left_ms = deadline_ms - self._client.now_ms()
            if left_ms <= 0:
                return {}
            await self._wait_for_data(left_ms)

    async def getone(self, timeout_ms: int | None = None) -> ConsumerRecord | None:
        """The next record; None when none came within `timeout_ms` (None: wait for ever)."""
        deadline_ms = None if timeout_ms is None else self._client.now_ms() + timeout_ms
        while True:
            self._require_usable()
            record = self._handed_out.next()
            if record is not None:
                return record
            self._driver.data_arrived.clear()
            await self._advance()
            taken = self._fetcher.take(self.config.max_poll_records)
            if taken:
                self._handed_out.add(taken)
                self._driver.wake()
                continue
            left_ms = 1_000 if deadline_ms is None else deadline_ms - self._client.now_ms()
            if left_ms <= 0:
                return None
            await self._wait_for_data(left_ms)

    def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[ConsumerRecord]:
        while True:
            record = await self.getone()
            if record is not None:
                yield record

    # --- positions ------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on from `offset`; what was fetched ahead is dropped."""
        if offset < 0:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"seek of {partition} to {offset}")
        state = self._require_assigned(partition)
        state.seek(FetchPosition(offset), self._client.metadata.leader_epoch(state.topic_partition))
        self._driver.wake()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Read on from the first offset there is; of all assigned partitions if none is named."""
        self._seek_to(EARLIEST_TIMESTAMP, partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Read on behind the last record; of all assigned partitions if none is named."""
        self._seek_to(LATEST_TIMESTAMP, partitions)

    async def position(self, partition: TopicPartition, timeout_ms: int | None = None) -> int:
        """The offset of the next record that will be handed out."""
        state = self._require_assigned(partition)
        deadline_ms = self._deadline_ms(timeout_ms)
        while state.state in (FetchState.INITIALIZING, FetchState.AWAIT_RESET):
            self._driver.data_arrived.clear()
            self._initialize_positions()
            error = state.error or self._take_initialize_error()
            if error is not None:
                state.error = None
                raise error
            self._driver.wake()
            left_ms = deadline_ms - self._client.now_ms()
            if left_ms <= 0:
                text = f"position of {state.topic_partition} did not come in time"
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text)
            await self._wait_for_data(left_ms)
        return self._handed_out.position(state).offset

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out nothing of these partitions until `resume`."""
        for partition in partitions:
            self._require_assigned(partition).paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Undo `pause`."""
        for partition in partitions:
            self._require_assigned(partition).paused = False
        self._driver.wake()

    def paused(self) -> tuple[TopicPartition, ...]:
        """The paused partitions."""
        return tuple(state.topic_partition for state in self._assigned if state.paused)

    def high_watermark(self, partition: TopicPartition) -> int | None:
        """The high watermark in the last fetch of an assigned partition; None before the first."""
        return self._require_assigned(partition).high_watermark

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset that each partition still has."""
        found = await self._list_offsets(dict.fromkeys(partitions, EARLIEST_TIMESTAMP))
        return {tp: at.offset for tp, at in found.items()}

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset behind the last record of each partition (read_committed: the last stable one)."""
        found = await self._list_offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP))
        return {tp: at.offset for tp, at in found.items()}

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each timestamp (ms since 1970); None where there is none."""
        for partition, timestamp in timestamps.items():
            if timestamp < 0:
                text = f"timestamp {timestamp} for {partition} is negative"
                raise KafkaError(ErrorCode.INVALID_TIMESTAMP, text)
        found = await self._list_offsets(timestamps)
        return {tp: at if at.offset >= 0 else None for tp, at in found.items()}

    # --- commits --------------------------------------------------------------------------

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit `offsets` (the next offset to read each), or the positions of everything handed out.

        Errors: see `OffsetCommitter.commit`.
        """
        committer = self._require_committer()
        await committer.commit(self._to_commit(offsets), self._deadline_ms(timeout_ms))

    def commit_async(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None
    ) -> asyncio.Task[None]:
        """Begin a commit; the task ends when it is done, or with its error."""
        committer = self._require_committer()
        return asyncio.create_task(committer.commit(self._to_commit(offsets), self._deadline_ms()))

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed for each partition; None where it has nothing."""
        self._require_committer()
        assert self._lookup is not None
        wanted = [TopicPartition(*partition) for partition in partitions]
        deadline_ms = self._deadline_ms(timeout_ms)
        found = await fetch_committed(self._client, self._lookup, wanted, deadline_ms)
        return {partition: found.get(partition) for partition in wanted}

    # --- inside ---------------------------------------------------------------------------

    async def _advance(self) -> None:
        """Group work and positions of new partitions; every reading call begins with it."""
        if self._group is not None:
            await self._group.advance()
        elif self._lookup is not None and len(self._assigned):
            self._committer.auto_commit_if_due()
        self._initialize_positions()
        error = self._take_initialize_error()
        if error is not None:
            raise error

    async def _wait_for_data(self, timeout_ms: int) -> None:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._driver.data_arrived.wait()
        except TimeoutError:
            return

    def _wake_poll(self) -> None:
        self._driver.data_arrived.set()
        self._driver.wake()

    def _on_metadata(self) -> None:
        if self._pattern is None or self._group is None:
            return
        topics = self._matching_topics()
        if topics != self._topics:
            self._topics = topics
            self._group.subscribe(topics, None)
            self._wake_poll()

    def _matching_topics(self) -> frozenset[str]:
        assert self._pattern is not None
        return frozenset(
            name
            for name, topic in self._client.metadata.topics.items()
            if self._pattern.fullmatch(name)
            and not (topic.is_internal and self.config.exclude_internal_topics)
        )

    def _initialize_positions(self) -> None:
        """Give positions to partitions that have none: committed ones, else by `auto_offset_reset`."""
        if self._initializing is not None and not self._initializing.done():
            return
        states = [state for state in self._assigned if state.state is FetchState.INITIALIZING]
        if not states:
            return
        if self._lookup is None:
            self._start_from(states, {})
            return
        self._initializing = asyncio.create_task(self._fetch_positions(states), name="tidelog-positions")

    async def _fetch_positions(self, states: list[PartitionState]) -> None:
        assert self._lookup is not None
        partitions = [state.topic_partition for state in states]
        try:
            committed = await fetch_committed(
                self._client, self._lookup, partitions, self._deadline_ms(), require_stable=True
            )
        except KafkaError as error:
            self._initialize_error = error
        else:
            self._start_from(states, committed)
        self._wake_poll()

    def _start_from(
        self, states: list[PartitionState], committed: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        timestamp = self._fetcher.reset_timestamp
        for state in states:
            if state.state is not FetchState.INITIALIZING:
                continue
            at = committed.get(state.topic_partition)
            if at is not None:
                epoch = self._client.metadata.leader_epoch(state.topic_partition)
                state.seek(FetchPosition(at.offset, at.leader_epoch), epoch)
            elif timestamp is not None:
                state.await_reset(timestamp)
            else:
                text = f'{state.topic_partition} has no committed offset and auto_offset_reset is "none"'
                self._initialize_error = KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
        self._driver.wake()

    def _take_initialize_error(self) -> KafkaError | None:
        error, self._initialize_error = self._initialize_error, None
        return error

    def _seek_to(self, timestamp: int, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions or self._assigned.topic_partitions:
            self._require_assigned(partition).await_reset(timestamp)
        self._driver.wake()

    async def _list_offsets(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        self._require_usable()
        asked = {TopicPartition(*partition): timestamp for partition, timestamp in timestamps.items()}
        question = OffsetsByTimestamp(
            asked,
            self._client.metadata,
            read_committed=self.config.read_committed,
            timeout_ms=self.config.request_timeout_ms,
        )
        answers = await ask_leaders(self._client, asked, question, self._deadline_ms())
        answers.raise_first()
        return answers.results

    def _to_commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        if offsets is None:
            return self._handed_out.positions()
        return {
            TopicPartition(*partition): OffsetAndMetadata(at) if isinstance(at, int) else at
            for partition, at in offsets.items()
        }

    def _require_usable(self) -> None:
        if not self._started:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the consumer is not started")
        if self._is_closed:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the consumer is closed")

    def _require_assigned(self, partition: TopicPartition) -> PartitionState:
        self._require_usable()
        state = self._assigned.get(TopicPartition(*partition))
        if state is None:
            text = f"{TopicPartition(*partition)} is not assigned to this consumer"
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
        return state

    def _require_committer(self) -> OffsetCommitter:
        self._require_usable()
        if self._lookup is None:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "commits need group_id")
        return self._committer

    def _deadline_ms(self, timeout_ms: int | None = None) -> int:
        limit = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        return self._client.now_ms() + limit
