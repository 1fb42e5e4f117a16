"""The consumer: reads partitions in order, alone or as a member of a group (shell).

    async with Consumer("localhost:9092", group_id="harbour", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["tides"])
        async for record in consumer:
            print(record.topic, record.partition, record.offset, record.value)

`poll` returns available records as `{TopicPartition: [ConsumerRecord, ...]}`; `getone` and `async for` return
one record at a time. Rebalance listeners, changes of the assignment and automatic commits happen only inside
these calls. The records of one call are therefore regarded as processed when the next call begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

from tidelog.clients.config.client_config import ConsumerConfig, make_config
from tidelog.clients.config.environment import Environment
from tidelog.clients.consumer.consumer_coordinator import ConsumerCoordinator
from tidelog.clients.consumer.consumer_group_member import ConsumerGroupMember
from tidelog.clients.consumer.consumer_lifecycle import ConsumerLifecycle, deadline_ms
from tidelog.clients.consumer.consumer_positions import ConsumerPositions
from tidelog.clients.consumer.consumer_types import ConsumerRecord, OffsetAndTimestamp
from tidelog.clients.consumer.fetch_driver import FetchDriver
from tidelog.clients.consumer.fetcher import Fetcher
from tidelog.clients.consumer.group_ports import GroupPorts
from tidelog.clients.consumer.partition_state import AssignedPartitions
from tidelog.clients.consumer.pending_records import PendingRecords
from tidelog.clients.consumer.position_initializer import PositionInitializer
from tidelog.clients.consumer.topic_subscription import (
    SubscriptionPattern,
    TopicPattern,
    TopicSubscription,
)
from tidelog.clients.groups.committed_offsets import fetch_committed
from tidelog.clients.groups.coordinator_lookup import CoordinatorLookup
from tidelog.clients.groups.group_offsets import ConsumerGroupMetadata, OffsetAndMetadata, require_offset
from tidelog.clients.groups.offset_committer import OffsetCommitter
from tidelog.clients.groups.rebalance_listener import RebalanceListener, require_listener
from tidelog.clients.metadata.cluster_client import ClusterClient
from tidelog.clients.metadata.topic_names import require_topic_name
from tidelog.clients.transport.connection import Authenticator
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition

Records = dict[TopicPartition, list[ConsumerRecord]]


def _topic_partition(value: object) -> TopicPartition:
    """Return `value` as a TopicPartition; raise KafkaError if it is not one, such as a topic alone."""
    match value:
        case (str(topic), int(partition)) if partition >= 0:
            require_topic_name(topic)
            return TopicPartition(topic, partition)
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"{value!r} is not a (topic, partition)")


def _to_commit(partition: object, at: object) -> OffsetAndMetadata:
    """Return the position of `at`, an offset or OffsetAndMetadata; raise an error if it is invalid."""
    position = at if isinstance(at, OffsetAndMetadata) else OffsetAndMetadata(at)  # type: ignore[arg-type]
    require_offset(position.offset, f"commit of {partition}")
    return position


class Consumer:
    """An asyncio consumer; use it as an async context manager, or call `start` and `close`.

    Options: see `ConsumerConfig` (Kafka's names with underscores). Only one task may use it at a time.
    Errors: KafkaError. Bounds: it fetches no more in advance while it buffers `fetch_max_bytes` or more.
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
        self._pending = PendingRecords(self._assigned)
        self._subscription: TopicSubscription | None = None
        self._group: ConsumerCoordinator | ConsumerGroupMember | None = None
        self._lookup: CoordinatorLookup | None = None
        self._lifecycle = ConsumerLifecycle()
        # Constructed by `start`, from scratch each time, because a closed client cannot be opened again.
        self._client: ClusterClient
        self._fetcher: Fetcher
        self._driver: FetchDriver
        self._committer: OffsetCommitter  # only with `group_id`, as `_lookup`
        self._initializer: PositionInitializer
        self._positions: ConsumerPositions

    # --- start and close ------------------------------------------------------------------

    async def start(self) -> None:
        """Connect to the cluster; raise KafkaError if no bootstrap server responds in time."""
        self._lifecycle.require_new()
        config = self.config
        self._client = ClusterClient(
            config,
            self._environment,
            self._authenticator,
            allow_auto_topic_creation=config.allow_auto_create_topics,
            max_idle_ms=None,
        )
        client = self._client
        self._fetcher = Fetcher(
            config,
            self._assigned,
            client.metadata,
            retry_backoff=client.backoff,
            rng=client.environment.rng,
        )
        self._driver = FetchDriver(client, config, self._assigned, self._fetcher)
        if config.group_id is not None:
            self._lookup = CoordinatorLookup(client, config.group_id)
            self._committer = OffsetCommitter(client, config, self._lookup, self._pending.positions)
        self._initializer = PositionInitializer(
            client,
            self._assigned,
            self._lookup,
            self._fetcher.reset_timestamp,
            config.default_api_timeout_ms,
            self._wake_poll,
        )
        self._positions = ConsumerPositions(
            config, client, self._assigned, self._pending, self._driver, self._initializer, self._lifecycle
        )
        await client.open(client.now_ms() + config.default_api_timeout_ms)
        client.updater.on_update.append(self._on_metadata)
        self._driver.start()
        self._lifecycle.on_started()

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
        """Commit positions (with `enable_auto_commit`), leave the group and close all connections.

        The rebalance listener is called for the revoked partitions, and may commit their positions.
        """
        if not self._lifecycle.is_running:
            return
        self._lifecycle.on_closing()
        self._driver.data_arrived.set()  # another task may wait in `poll`
        try:
            if self._group is not None:
                await self._group.close(timeout_ms)
            elif self._lookup is not None:
                await self._committer.auto_commit_now(self._client.now_ms() + timeout_ms)
        finally:
            self._lifecycle.on_closed()
            await self._initializer.close()
            if self._lookup is not None:
                await self._committer.close()
            await self._driver.close()
            await self._client.close()

    # --- subscription and assignment ------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: TopicPattern | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read topics as a member of the group: by name, or topics whose whole name matches `pattern`.

        The coordinator matches a `SubscriptionPattern`; this needs `group_protocol="consumer"`. This replaces
        an earlier subscription. Partitions are assigned during the next calls of `poll`.
        """
        self._require_open()
        if listener is not None:
            require_listener(listener)
        config = self.config
        if config.group_id is None or self._lookup is None:
            raise KafkaError(
                ErrorCode.INVALID_GROUP_ID, "subscribe needs the option group_id; without it, use assign"
            )
        if isinstance(pattern, SubscriptionPattern) and config.group_protocol != "consumer":
            text = f"{pattern!r} needs the option group_protocol='consumer', not {config.group_protocol!r}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        exclude_internal = config.exclude_internal_topics
        subscription = TopicSubscription(topics, pattern, exclude_internal=exclude_internal)
        if self._group is None:
            if len(self._assigned):
                raise KafkaError(ErrorCode.INVALID_REQUEST, "subscribe and assign exclude each other")
            create = ConsumerGroupMember if config.group_protocol == "consumer" else ConsumerCoordinator
            ports = GroupPorts(
                client=self._client,
                config=config,
                lookup=self._lookup,
                committer=self._committer,
                assigned=self._assigned,
                on_change=self._wake_poll,
            )
            self._group = create(ports)
        updater = self._client.updater
        self._subscription = subscription
        updater.policy.set_wants_all_topics(subscription.needs_all_topics)
        self._group.set_listener(listener)
        if subscription.needs_all_topics:
            # The consumer joins when the metadata has all topics of the cluster.
            updater.request_update()
        elif subscription.coordinator_pattern is not None:
            assert isinstance(self._group, ConsumerGroupMember)
            self._group.subscribe_pattern(subscription.coordinator_pattern)
        else:
            updater.set_topics(set(subscription.topics))
            self._group.subscribe(subscription.topics)

    async def unsubscribe(self) -> None:
        """Leave the group, and remove the subscription or assignment."""
        self._require_open()
        if self._group is not None:
            group, self._group = self._group, None
            await group.close(self.config.request_timeout_ms)
        self._subscription = None
        self._client.updater.policy.set_wants_all_topics(False)
        self._assigned.set(())

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Read exactly these partitions, without group management; replaces an earlier assignment."""
        self._require_open()
        if self._group is not None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "subscribe and assign exclude each other")
        topic_partitions = [_topic_partition(partition) for partition in partitions]
        self._assigned.set(topic_partitions)
        self._client.updater.set_topics({tp.topic for tp in topic_partitions})
        self._driver.wake()

    def assignment(self) -> tuple[TopicPartition, ...]:
        """Return the assigned partitions."""
        return self._assigned.topic_partitions

    def subscription(self) -> frozenset[str]:
        """Return the subscribed topics, also those that match the pattern.

        Empty with a `SubscriptionPattern`, as in Kafka: only the coordinator knows the topics.
        """
        return frozenset() if self._subscription is None else self._subscription.topics

    async def partitions_for(self, topic: str, timeout_ms: int | None = None) -> tuple[int, ...]:
        """Return the partitions of `topic`; wait for its metadata."""
        self._lifecycle.require_usable()
        await self._client.updater.ensure_topic(topic, self._deadline_ms(timeout_ms))
        return tuple(self._client.metadata.topics[topic].partitions)

    # --- reading --------------------------------------------------------------------------

    async def poll(self, timeout_ms: int = 1_000, max_records: int | None = None) -> Records:
        """Return available records; wait at most `timeout_ms` for the first one. Empty if there is none.

        At most `max_records` (None: `max_poll_records`), in the order of their offsets in each partition.
        """
        self._require_reading()
        limit = self.config.max_poll_records if max_records is None else max_records
        deadline_ms = self._client.now_ms() + timeout_ms
        while True:
            self._driver.data_arrived.clear()
            await self._advance()
            records = self._pending.take(limit)
            if not records:
                records = {state.topic_partition: taken for state, taken in self._fetcher.take(limit)}
            if records:
                self._driver.wake()
                return records
            left_ms = deadline_ms - self._client.now_ms()
            if left_ms <= 0:
                return {}
            await self._lifecycle.wait_for_data(self._driver, left_ms)

    async def getone(self, timeout_ms: int | None = None) -> ConsumerRecord | None:
        """Return the next record; None if there is none within `timeout_ms` (None: wait without limit)."""
        deadline_ms = None
        if timeout_ms is not None:
            self._lifecycle.require_usable()
            deadline_ms = self._client.now_ms() + timeout_ms
        while True:
            self._require_reading()
            record = self._pending.next()
            if record is not None:
                return record
            self._driver.data_arrived.clear()
            await self._advance()
            taken = self._fetcher.take(self.config.max_poll_records)
            if taken:
                self._pending.add(taken)
                self._driver.wake()
                continue
            left_ms = 1_000 if deadline_ms is None else deadline_ms - self._client.now_ms()
            if left_ms <= 0:
                return None
            await self._lifecycle.wait_for_data(self._driver, left_ms)

    def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[ConsumerRecord]:
        self._require_reading()
        while True:
            try:
                record = await self.getone()
            except KafkaError:
                if self._lifecycle.is_closing:
                    return  # by another task, while this one waited
                raise
            while record is not None:
                yield record
                # Pending records need no `await`; group work follows when all of them were returned.
                record = None if self._lifecycle.is_closing else self._pending.next()

    # --- positions ------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue to read at `offset`; drop the records fetched in advance."""
        self._running_positions().seek(partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue at the first offset of these partitions, or of all assigned ones without arguments."""
        self._running_positions().seek_to_beginning(*partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue after the last record of these partitions, or of all assigned ones without arguments."""
        self._running_positions().seek_to_end(*partitions)

    async def position(self, partition: TopicPartition, timeout_ms: int | None = None) -> int:
        """Return the offset of the next record that will be returned."""
        return await self._running_positions().position(partition, timeout_ms)

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until `resume`."""
        self._running_positions().pause(*partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """Undo `pause`."""
        self._running_positions().resume(*partitions)

    def paused(self) -> tuple[TopicPartition, ...]:
        """Return the paused partitions."""
        return tuple(state.topic_partition for state in self._assigned if state.paused)

    def high_watermark(self, partition: TopicPartition) -> int | None:
        """Return the high watermark in the last fetch of an assigned partition; None before the first."""
        return self._running_positions().high_watermark(partition)

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset of each partition."""
        return await self._running_positions().beginning_offsets(partitions)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset after the last record of each partition (read_committed: the last stable one)."""
        return await self._running_positions().end_offsets(partitions)

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after each timestamp (ms since 1970); None where there is none."""
        return await self._running_positions().offsets_for_times(timestamps)

    def _running_positions(self) -> ConsumerPositions:
        """Return the positions; raise KafkaError before the consumer is started and after it is closed."""
        self._lifecycle.require_usable()
        return self._positions

    # --- commits --------------------------------------------------------------------------

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit `offsets` (the next offset to read), or the positions after all returned records.

        Errors: see `OffsetCommitter.commit`.
        """
        committer = self._require_committer()
        await committer.commit(self._to_commit(offsets), self._deadline_ms(timeout_ms))

    def commit_async(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None
    ) -> asyncio.Task[None]:
        """Start a commit; return the task, which ends with the commit or raises its error."""
        committer = self._require_committer()
        return asyncio.create_task(committer.commit(self._to_commit(offsets), self._deadline_ms()))

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offset of each partition; None if it has none.

        Wait for the end of transactions that commit offsets of these partitions (KIP-447).
        """
        self._require_committer()
        assert self._lookup is not None
        topic_partitions = [TopicPartition(*partition) for partition in partitions]
        deadline_ms = self._deadline_ms(timeout_ms)
        committed = await fetch_committed(
            self._client, self._lookup, topic_partitions, deadline_ms, require_stable=True
        )
        return {partition: committed.get(partition) for partition in topic_partitions}

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the group metadata for `Producer.send_offsets_to_transaction` (KIP-447).

        Call it after the records were polled: a rebalance since then makes the commit fail. Raise
        KafkaError(UNKNOWN_MEMBER_ID) if a subscribed consumer is not a member of the group.
        """
        return self._require_committer().group_metadata()

    # --- inside ---------------------------------------------------------------------------

    def _wake_poll(self) -> None:
        self._driver.data_arrived.set()
        self._driver.wake()

    def _deadline_ms(self, timeout_ms: int | None = None) -> int:
        return deadline_ms(self._client, self.config, timeout_ms)

    def _require_open(self) -> None:
        self._lifecycle.require_usable()
        self._lifecycle.require_open(self._driver)

    async def _advance(self) -> None:
        """Do group work and initialize positions; called first by every call that reads."""
        if self._group is not None:
            await self._group.advance()
        elif self._lookup is not None and len(self._assigned):
            self._committer.auto_commit_periodically()
        self._initializer.advance()

    def _require_reading(self) -> None:
        self._require_open()
        if self._group is None and not len(self._assigned):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "no partitions to read: call subscribe or assign first"
            )

    def _on_metadata(self) -> None:
        subscription, group = self._subscription, self._group
        if subscription is None or group is None or not subscription.match(self._client.metadata):
            return
        # A pattern without matches ends an earlier subscription, but it is no reason to join a group.
        if subscription.topics or group.is_subscribed:
            group.subscribe(subscription.topics)
            self._wake_poll()

    def _to_commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        if offsets is None:
            return self._pending.positions()
        return {_topic_partition(partition): _to_commit(partition, at) for partition, at in offsets.items()}

    def _require_committer(self) -> OffsetCommitter:
        self._lifecycle.require_usable()
        if self._lookup is None:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "commits need the option group_id")
        return self._committer
