"""The share consumer: reads records together with the other members of a share group (shell, KIP-932).

    async with ShareConsumer("localhost:9092", group_id="workers") as consumer:
        consumer.subscribe(["jobs"])
        while True:
            for records in (await consumer.poll()).values():
                for record in records:
                    work(record.value)

Several members read the same partition; each record is delivered to one of them at a time. A member that does
not acknowledge a record in time, or that ends, loses it to another one. With implicit acknowledgement, `poll`
accepts all records of the call before. With `share_acknowledgement_mode="explicit"`, each record must be
acknowledged before the next `poll`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from enum import Enum, auto
from types import TracebackType
from typing import Any

from tidelog.base.randomness import new_uuid
from tidelog.clients.config.client_config import make_config
from tidelog.clients.config.environment import Environment
from tidelog.clients.config.share_config import ShareConsumerConfig
from tidelog.clients.consumer.consumer_types import ConsumerRecord
from tidelog.clients.consumer.topic_subscription import TopicSubscription
from tidelog.clients.metadata.cluster_client import ClusterClient
from tidelog.clients.share_consumer.acquired_records import AcquiredRange
from tidelog.clients.share_consumer.share_broker import AcknowledgementResults, ShareBroker
from tidelog.clients.share_consumer.share_group_member import ShareGroupMember
from tidelog.clients.share_consumer.share_membership import ShareMembership
from tidelog.clients.transport.connection import Authenticator
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, TopicPartition
from tidelog.protocol.share_groups.acknowledge_type import AcknowledgeType

Records = dict[TopicPartition, list[ConsumerRecord]]
AcknowledgementListener = Callable[[AcknowledgementResults], None]


class _Stage(Enum):
    NEW = auto()
    RUNNING = auto()
    CLOSED = auto()


class ShareConsumer:
    """An asyncio share consumer; use it as an async context manager, or call `start` and `close`.

    Options: see `ShareConsumerConfig` (Kafka's names with underscores). Only one task may use it at a time.
    Errors: KafkaError. Bounds: at most one fetched response for each broker is buffered.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] = "localhost:9092",
        *,
        environment: Environment | None = None,
        authenticator: Authenticator | None = None,
        **options: Any,
    ) -> None:
        self.config = make_config(ShareConsumerConfig, {"bootstrap_servers": bootstrap_servers, **options})
        self._environment = environment
        self._authenticator = authenticator
        self._stage = _Stage.NEW
        self._brokers: dict[BrokerId, ShareBroker] = {}
        self._delivered: dict[TopicPartition, list[AcquiredRange]] = {}
        """The records of the last `poll` that are not acknowledged."""
        self._owners: dict[TopicPartition, ShareBroker] = {}
        """The broker from which the delivered records of a partition were fetched."""
        self._listener: AcknowledgementListener | None = None
        self._results: AcknowledgementResults = {}
        self._changed = asyncio.Event()
        # Constructed by `start`.
        self._client: ClusterClient
        self._membership: ShareMembership
        self._member: ShareGroupMember

    # --- start and close ------------------------------------------------------------------

    async def start(self) -> None:
        """Connect to the cluster; raise KafkaError if no bootstrap server responds in time."""
        if self._stage is not _Stage.NEW:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the share consumer was already started")
        config = self.config
        self._client = client = ClusterClient(
            config,
            self._environment,
            self._authenticator,
            allow_auto_topic_creation=config.allow_auto_create_topics,
            max_idle_ms=None,
        )
        await client.open(client.now_ms() + config.default_api_timeout_ms)
        assert config.group_id is not None
        member_id = str(new_uuid(client.environment.rng))
        self._membership = ShareMembership(config.group_id, member_id, config.client_rack or None)
        self._member = ShareGroupMember(client, config, self._membership, self._changed.set)
        client.updater.on_update.append(self._changed.set)
        self._stage = _Stage.RUNNING

    async def __aenter__(self) -> ShareConsumer:
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
        """Acknowledge as `poll` does, release all other records, and leave the group."""
        if self._stage is not _Stage.RUNNING:
            return
        self._stage = _Stage.CLOSED
        self._changed.set()  # another task may wait in `poll`
        try:
            self._decide_delivered(
                AcknowledgeType.RELEASE if self.config.is_explicit else AcknowledgeType.ACCEPT
            )
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_ms / 1000):
                    await asyncio.gather(*(broker.close() for broker in self._brokers.values()))
        finally:
            for broker in self._brokers.values():
                broker.cancel()
            await self._member.close(timeout_ms)
            await self._client.close()

    # --- subscription ---------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str]) -> None:
        """Read these topics as a member of the group; this replaces an earlier subscription."""
        self._require_running()
        subscription = TopicSubscription(topics, None, exclude_internal=False)
        self._client.updater.set_topics(set(subscription.topics))
        self._member.subscribe(subscription.topics)

    def assignment(self) -> tuple[TopicPartition, ...]:
        """Return the partitions that the coordinator has assigned; other members may read them, too."""
        self._require_running()
        return tuple(self._member.assigned())

    async def partitions_for(self, topic: str, timeout_ms: int | None = None) -> tuple[int, ...]:
        """Return the partitions of `topic`; wait for its metadata."""
        self._require_running()
        timeout_ms = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        await self._client.updater.ensure_topic(topic, self._client.now_ms() + timeout_ms)
        return tuple(self._client.metadata.topics[topic].partitions)

    # --- reading --------------------------------------------------------------------------

    async def poll(self, timeout_ms: int = 1_000) -> Records:
        """Return records; wait at most `timeout_ms` for the first one. Empty if there is none.

        With implicit acknowledgement, the records of the call before are accepted. With explicit
        acknowledgement, raise KafkaError(INVALID_REQUEST) if one of them is not acknowledged.
        """
        self._require_running()
        await self._finish_delivered()
        deadline_ms = self._client.now_ms() + timeout_ms
        while True:
            self._changed.clear()
            self._member.on_poll()
            records = self._take()
            if records:
                # Brokers other than theirs: the locks must not expire while the application works.
                for broker in self._brokers.values():
                    broker.send_decided()
                return records
            self._fetch()
            left_ms = deadline_ms - self._client.now_ms()
            if left_ms <= 0:
                return {}
            with suppress(TimeoutError):
                async with asyncio.timeout(left_ms / 1000):
                    await self._changed.wait()
            self._require_running()

    def delivery_count(self, record: ConsumerRecord) -> int:
        """Return how often a record of the last `poll` was delivered, at least 1."""
        return self._range_of(record).delivery_count

    def acknowledge(self, record: ConsumerRecord, kind: AcknowledgeType = AcknowledgeType.ACCEPT) -> None:
        """Decide about a record of the last `poll`; only with explicit acknowledgement.

        The decisions are sent with the next `poll`, `commit` or `close`. Records whose locks are renewed are
        returned again by the next `poll`.
        """
        self._require_running()
        if not self.config.is_explicit:
            text = "acknowledge needs share_acknowledgement_mode='explicit'"
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        if kind is AcknowledgeType.GAP or not self._range_of(record).decide(record.offset, kind):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"offset {record.offset}: {kind.name} is not possible"
            )

    async def commit(self) -> AcknowledgementResults:
        """Send the acknowledgements now; return an error, or None, for each partition.

        With implicit acknowledgement all records of the last `poll` are accepted, otherwise the decisions so
        far are sent.
        """
        self._require_running()
        self._results = {}
        if self.config.is_explicit:
            await self._send_decided()
        else:
            self._decide_delivered(AcknowledgeType.ACCEPT)
            await asyncio.gather(*(broker.acknowledge() for broker in self._brokers.values()))
        results, self._results = self._results, {}
        return results

    def set_acknowledgement_listener(self, listener: AcknowledgementListener | None) -> None:
        """Call `listener` with the results of acknowledgements: an error, or None, for each partition."""
        self._listener = listener

    # --- inside ---------------------------------------------------------------------------

    async def _finish_delivered(self) -> None:
        """Acknowledge the records of the last `poll`."""
        if not self.config.is_explicit:
            self._decide_delivered(AcknowledgeType.ACCEPT)
            return
        undecided = sum(one.undecided_count for ranges in self._delivered.values() for one in ranges)
        if undecided:
            text = f"{undecided} records of the last poll are not acknowledged"
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        if any(one.renewed() for ranges in self._delivered.values() for one in ranges):
            await self._send_decided()
        else:
            self._decide_delivered(AcknowledgeType.ACCEPT)

    async def _send_decided(self) -> None:
        """Send the acknowledged ranges in requests of their own; renewals cannot be sent with a fetch."""
        renewed: dict[ShareBroker, dict[TopicPartition, list[AcquiredRange]]] = {}
        brokers: dict[ShareBroker, None] = {}
        for topic_partition, ranges in list(self._delivered.items()):
            parts = [one.divided() for one in ranges]
            decided = [one for decided_parts, _ in parts for one in decided_parts]
            self._keep(topic_partition, [one for _, undecided_parts in parts for one in undecided_parts])
            if not decided:
                continue
            broker = self._owners[topic_partition]
            brokers[broker] = None
            broker.decide(topic_partition, decided)
            again = [part for one in decided for part in one.renewed()]
            if again:
                renewed.setdefault(broker, {})[topic_partition] = again
        await asyncio.gather(*(broker.acknowledge(renewed.get(broker)) for broker in brokers))

    def _keep(self, topic_partition: TopicPartition, ranges: list[AcquiredRange]) -> None:
        if ranges:
            self._delivered[topic_partition] = ranges
        else:
            del self._delivered[topic_partition]

    def _decide_delivered(self, kind: AcknowledgeType) -> None:
        """Acknowledge all delivered records; `kind` is for those that are not acknowledged yet."""
        delivered, self._delivered = self._delivered, {}
        for topic_partition, ranges in delivered.items():
            for one in ranges:
                one.decide_rest(kind)
            self._owners[topic_partition].decide(topic_partition, ranges)

    def _take(self) -> Records:
        """Return the fetched records; those without records, such as markers, are acknowledged."""
        records: Records = {}
        for broker in self._brokers.values():
            broker.raise_error()
        for broker in self._brokers.values():
            for topic_partition, ranges in broker.take().items():
                self._owners[topic_partition] = broker
                empty = [one for one in ranges if not one.records]
                if empty:
                    broker.decide(topic_partition, empty)
                full = [one for one in ranges if one.records]
                if full:
                    self._delivered.setdefault(topic_partition, []).extend(full)
                    taken = records.setdefault(topic_partition, [])
                    for one in full:
                        taken += one.records
        return records

    def _fetch(self) -> None:
        """Begin a fetch at each broker that leads an assigned partition."""
        wanted: dict[BrokerId, list[TopicPartition]] = {}
        for topic_partition in self._member.assigned():
            leader = self._client.metadata.leader(topic_partition)
            if leader is None:
                self._client.updater.request_update()
            else:
                wanted.setdefault(leader, []).append(topic_partition)
        for node_id in wanted:
            if node_id not in self._brokers:
                self._brokers[node_id] = ShareBroker(
                    node_id,
                    self._membership.member_id,
                    self._client,
                    self.config,
                    self._changed.set,
                    self._on_acknowledged,
                )
        for node_id, broker in self._brokers.items():
            broker.fetch(wanted.get(node_id, ()))

    def _on_acknowledged(self, results: AcknowledgementResults) -> None:
        self._results |= results
        if self._listener is not None:
            self._listener(results)

    def _range_of(self, record: ConsumerRecord) -> AcquiredRange:
        for one in self._delivered.get(record.topic_partition, ()):
            if one.first_offset <= record.offset <= one.last_offset:
                return one
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{record.topic_partition}: offset {record.offset} is not a record of the last poll",
        )

    def _require_running(self) -> None:
        if self._stage is not _Stage.RUNNING:
            reason = "is not started" if self._stage is _Stage.NEW else "is closed"
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"the share consumer {reason}")
