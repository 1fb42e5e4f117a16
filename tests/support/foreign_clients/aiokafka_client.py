"""aiokafka behind the common interface; its coroutines run on an event loop in a separate thread."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from tests.support.foreign_clients.background_poll import BackgroundPoll
from tests.support.foreign_clients.interface import (
    DEADLINE_S,
    EARLIEST,
    LATEST,
    ConsumerOptions,
    ForeignClient,
    ForeignError,
    GroupView,
    Message,
    ProducerOptions,
    Receipt,
    Received,
    messages_of,
)
from tests.support.loops.loop_thread import LOOP

ResultT = TypeVar("ResultT")

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}
LOCAL_ERROR = -1000
POLL_MS = 300


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except aiokafka.errors.KafkaError as failure:
        raise _error(failure) from failure


def _error(failure: BaseException) -> ForeignError:
    code = getattr(failure, "errno", None)
    return ForeignError(LOCAL_ERROR if code is None else code, repr(failure))


class AiokafkaProducer:
    """aiokafka.AIOKafkaProducer."""

    def __init__(self, servers: str, options: ProducerOptions) -> None:
        self._pending: list[asyncio.Future[Any]] = []

        async def start() -> AIOKafkaProducer:
            producer = AIOKafkaProducer(
                bootstrap_servers=servers,
                compression_type=None if options.compression == "none" else options.compression,
                acks=options.acks,
                enable_idempotence=options.idempotent,
                linger_ms=options.linger_ms,
                max_batch_size=options.batch_bytes,
                max_request_size=options.request_bytes_max,
            )
            await producer.start()
            return producer

        self._producer = LOOP.run(start())

    def send(self, topic: str, messages: Iterable[Message]) -> None:
        """Queue messages."""

        async def send() -> None:
            for message in messages:
                self._pending.append(
                    await self._producer.send(
                        topic,
                        message.value,
                        message.key,
                        message.partition,
                        message.timestamp_ms,
                        list(message.headers),
                    )
                )

        with _errors():
            LOOP.run(send())

    def flush(self) -> list[Receipt]:
        """Wait for every future."""
        pending, self._pending = self._pending, []

        async def wait() -> list[Any]:
            async with asyncio.timeout(DEADLINE_S):
                return await asyncio.gather(*pending)

        with _errors():
            responses = LOOP.run(wait())
        return [_receipt(response) for response in responses]

    def close(self) -> None:
        """Stop the producer."""
        LOOP.run(self._producer.stop())


def _receipt(response: Any) -> Receipt:
    if response is None:  # acks=0
        return Receipt(-1, -1)
    return Receipt(response.partition, response.offset)


class AiokafkaConsumer:
    """aiokafka.AIOKafkaConsumer."""

    def __init__(self, servers: str, options: ConsumerOptions) -> None:
        self._topic = ""

        async def start() -> AIOKafkaConsumer:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=servers,
                client_id=options.client_id,
                group_id=options.group,
                group_instance_id=options.instance_id,
                auto_offset_reset=options.offset_reset,
                isolation_level=options.isolation,
                partition_assignment_strategy=(ASSIGNORS[options.assignor],),
                enable_auto_commit=options.auto_commit,
                auto_commit_interval_ms=200,
                max_partition_fetch_bytes=options.partition_bytes_max,
                fetch_max_bytes=options.fetch_bytes_max,
                session_timeout_ms=options.session_timeout_ms,
                max_poll_interval_ms=options.poll_interval_ms_max,
                metadata_max_age_ms=options.metadata_age_ms_max,
                heartbeat_interval_ms=100,
                fetch_max_wait_ms=50,
            )
            await consumer.start()
            return consumer

        self._consumer = LOOP.run(start())
        self._background_poll = BackgroundPoll(lambda: LOOP.start(self._consumer.getmany(timeout_ms=POLL_MS)))

    def assign(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Read partitions without a group."""
        self._topic = topic

        async def assign() -> None:
            self._consumer.assign([TopicPartition(topic, number) for number in offsets])
            for number, offset in offsets.items():
                await self._seek(number, offset)

        with _errors():
            LOOP.run(assign())

    async def _seek(self, partition: int, offset: int) -> None:
        if offset == EARLIEST:
            await self._consumer.seek_to_beginning(self._partition(partition))
        elif offset == LATEST:
            await self._consumer.seek_to_end(self._partition(partition))
        else:
            self._consumer.seek(self._partition(partition), offset)

    def _partition(self, partition: int) -> TopicPartition:
        return TopicPartition(self._topic, partition)

    def subscribe(self, *topics: str) -> None:
        """Join the group."""
        self._topic = topics[0]

        async def subscribe() -> None:
            self._consumer.subscribe(list(topics))

        LOOP.run(subscribe())

    def poll(self, timeout_s: float = 0.1) -> list[Received]:
        """Return fetched messages."""
        with _errors():
            return messages_of(self._background_poll.poll(timeout_s))

    def assignment(self) -> set[tuple[str, int]]:
        """Return the assigned partitions."""
        return {(one.topic, one.partition) for one in self._consumer.assignment()}

    def seek(self, partition: int, offset: int) -> None:
        """Continue reading from `offset`."""
        with _errors():
            LOOP.run(self._seek(partition, offset))

    def position(self, partition: int) -> int:
        """Return the offset after the last polled message."""
        return int(LOOP.run(self._consumer.position(self._partition(partition))))

    def pause(self, *partitions: int) -> None:
        """Pause these partitions."""

        async def pause() -> None:
            self._consumer.pause(*(self._partition(number) for number in partitions))

        LOOP.run(pause())

    def resume(self, *partitions: int) -> None:
        """Resume these partitions."""

        async def resume() -> None:
            self._consumer.resume(*(self._partition(number) for number in partitions))

        LOOP.run(resume())

    def commit(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Commit and wait."""
        with _errors():
            LOOP.run(
                self._consumer.commit(
                    {TopicPartition(topic, number): offset for number, offset in offsets.items()}
                )
            )

    def committed_offset(self, topic: str, partition: int) -> int | None:
        """Return the committed offset; None if there is none."""
        with _errors():
            offset: int | None = LOOP.run(self._consumer.committed(TopicPartition(topic, partition)))
        return offset

    def offset_for_time(self, partition: int, timestamp_ms: int) -> int | None:
        """Return the first offset at or after a timestamp; None if there is none."""
        with _errors():
            offsets = LOOP.run(self._consumer.offsets_for_times({self._partition(partition): timestamp_ms}))
        record_place = offsets[self._partition(partition)]
        offset: int | None = None if record_place is None else record_place.offset
        return offset

    def watermarks(self, partition: int) -> tuple[int, int]:
        """Return the first offset and the end offset from the broker."""
        key = self._partition(partition)
        with _errors():
            low = LOOP.run(self._consumer.beginning_offsets([key]))
            high = LOOP.run(self._consumer.end_offsets([key]))
        return low[key], high[key]

    def close(self) -> None:
        """Leave the group."""
        LOOP.run(self._consumer.stop())


class AiokafkaAdmin:
    """aiokafka.admin.AIOKafkaAdminClient."""

    def __init__(self, servers: str) -> None:
        async def start() -> AIOKafkaAdminClient:
            client = AIOKafkaAdminClient(bootstrap_servers=servers)
            await client.start()
            return client

        self.client = LOOP.run(start())

    def _run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        with _errors():
            return LOOP.run(work)

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
        replication: int = 1,
        *,
        validate_only: bool = False,
    ) -> None:
        """Create a topic."""
        new = NewTopic(topic, partitions, replication, topic_configs=dict(config or {}))
        response = self._run(self.client.create_topics([new], validate_only=validate_only))
        for entry in response.topic_errors:
            _raise(entry[1], entry)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic."""
        response = self._run(self.client.delete_topics([topic]))
        for entry in response.topic_error_codes:
            _raise(entry[1], entry)

    def topics(self) -> set[str]:
        """Return the names of all topics in the metadata."""
        return set(self._run(self.client.list_topics()))

    def partition_leaders(self, topic: str) -> dict[int, int]:
        """Return the leader of each partition."""
        (described,) = self._run(self.client.describe_topics([topic]))
        _raise(described["error_code"], described)
        return {entry["partition"]: entry["leader"] for entry in described["partitions"]}

    def add_partitions(self, topic: str, total: int) -> None:
        """Increase the number of partitions to `total`."""
        self._run(self.client.create_partitions({topic: NewPartitions(total)}))

    def config(self, topic: str) -> dict[str, str]:
        """Return the configs of a topic."""
        return self._describe(ConfigResourceType.TOPIC, topic)

    def broker_config(self, node_id: int) -> dict[str, str]:
        """Return the configs of a broker."""
        return self._describe(ConfigResourceType.BROKER, str(node_id))

    def _describe(self, kind: ConfigResourceType, name: str) -> dict[str, str]:
        (response,) = self._run(self.client.describe_configs([ConfigResource(kind, name)]))
        (resource,) = response.resources
        code, text, _, _, entries = resource
        _raise(code, text)
        return {entry[0]: entry[1] for entry in entries}

    def set_config(self, topic: str, key: str, value: str) -> None:
        """Set one config of a topic; AlterConfigs resets all others to their defaults."""
        self._alter(ConfigResource(ConfigResourceType.TOPIC, topic, {key: value}))

    def set_broker_config(self, node_id: int, key: str, value: str) -> None:
        """Set one config of a broker; AlterConfigs resets all others to their defaults."""
        self._alter(ConfigResource(ConfigResourceType.BROKER, str(node_id), {key: value}))

    def _alter(self, resource: ConfigResource) -> None:
        responses = self._run(self.client.alter_configs([resource]))
        for entry in (entry for response in responses for entry in response.resources):
            _raise(entry[0], entry)

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        """Delete the records below offset `before`; return the new log start offset."""
        key = TopicPartition(topic, partition)
        log_start_offset: int = self._run(self.client.delete_records({key: RecordsToDelete(before)}))[key]
        return log_start_offset

    def groups(self) -> set[str]:
        """Return the ids of all groups."""
        return {entry[0] for entry in self._run(self.client.list_consumer_groups())}

    def describe_group(self, group: str) -> GroupView:
        """Return the state of a group and the client ids of its members."""
        (response,) = self._run(self.client.describe_consumer_groups([group]))
        (description,) = response.to_object()["groups"]
        _raise(description["error_code"], description)
        return GroupView(
            description["state"].lower(),
            tuple(sorted(member["client_id"] for member in description["members"])),
        )

    def group_offsets(self, group: str) -> dict[tuple[str, int], int]:
        """Return the committed offsets of a group by topic and partition."""
        offsets = self._run(self.client.list_consumer_group_offsets(group))
        return {(key.topic, key.partition): committed.offset for key, committed in offsets.items()}

    def cluster(self) -> tuple[str, set[int]]:
        """Return the cluster id and the ids of the brokers."""
        description = self._run(self.client.describe_cluster())
        return description["cluster_id"], {broker["node_id"] for broker in description["brokers"]}

    def close(self) -> None:
        """Close the connections."""
        LOOP.run(self.client.close())


def _raise(code: int, context: object) -> None:
    if code:
        raise ForeignError(code, f"{aiokafka.errors.for_code(code).__name__} {context}")


AIOKAFKA = ForeignClient("aiokafka", AiokafkaProducer, AiokafkaConsumer, AiokafkaAdmin)
