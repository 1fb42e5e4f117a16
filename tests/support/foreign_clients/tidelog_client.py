"""Tidelog's clients behind the common interface, so that they pass the same tests as other clients."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

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
from tidelog.clients.admin.admin import Admin
from tidelog.clients.admin.types import (
    AlterOperation,
    ConfigChange,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from tidelog.clients.consumer.consumer import Consumer
from tidelog.clients.producer.producer import Producer
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import TopicPartition

ResultT = TypeVar("ResultT")


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except KafkaError as failure:
        raise ForeignError(failure.code, str(failure)) from failure


class TidelogProducer:
    """tidelog.Producer."""

    def __init__(self, servers: str, options: ProducerOptions) -> None:
        self._pending: list[asyncio.Future[Any]] = []

        async def start() -> Producer:
            producer = Producer(
                servers,
                compression_type=options.compression,
                acks=options.acks,
                enable_idempotence=options.idempotent,
                linger_ms=options.linger_ms,
                batch_size=options.batch_bytes,
                max_request_size=options.request_bytes_max,
                max_block_ms=options.unknown_topic_ms,
                reconnect_backoff_max_ms=200,
            )
            await producer.start()
            return producer

        with _errors():
            self._producer = LOOP.run(start())

    def send(self, topic: str, messages: Iterable[Message]) -> None:
        """Queue messages."""

        async def send() -> None:
            for message in messages:
                self._pending.append(
                    await self._producer.send(
                        topic,
                        message.value,
                        key=message.key,
                        headers=message.headers,
                        partition=message.partition,
                        timestamp_ms=message.timestamp_ms,
                    )
                )

        with _errors():
            LOOP.run(send())

    def flush(self) -> list[Receipt]:
        """Wait for every future."""
        pending, self._pending = self._pending, []

        async def wait() -> list[Any]:
            async with asyncio.timeout(DEADLINE_S):
                await self._producer.flush()
                return [await future for future in pending]

        with _errors():
            responses = LOOP.run(wait())
        return [Receipt(response.partition, response.offset) for response in responses]

    def close(self) -> None:
        """Stop the producer."""
        LOOP.run(self._producer.close(timeout_ms=2000))


class TidelogConsumer:
    """tidelog.Consumer."""

    def __init__(self, servers: str, options: ConsumerOptions) -> None:
        self._topic = ""

        async def start() -> Consumer:
            consumer = Consumer(
                servers,
                client_id=options.client_id,
                group_id=options.group,
                group_instance_id=options.instance_id,
                auto_offset_reset=options.offset_reset,
                isolation_level=options.isolation,
                partition_assignment_strategy=(options.assignor,),
                enable_auto_commit=options.auto_commit,
                auto_commit_interval_ms=200,
                max_partition_fetch_bytes=options.partition_bytes_max,
                fetch_max_bytes=options.fetch_bytes_max,
                max_response_bytes=options.fetch_bytes_max + 10_000_000,
                session_timeout_ms=options.session_timeout_ms,
                max_poll_interval_ms=options.poll_interval_ms_max,
                metadata_max_age_ms=options.metadata_age_ms_max,
                allow_auto_create_topics=options.auto_create,
                heartbeat_interval_ms=100,
                fetch_max_wait_ms=50,
                max_poll_records=10_000,
                reconnect_backoff_max_ms=200,
            )
            await consumer.start()
            return consumer

        with _errors():
            self._consumer = LOOP.run(start())

    def _partition(self, partition: int) -> TopicPartition:
        return TopicPartition(self._topic, partition)

    def _call(self, action: Any, *arguments: Any) -> Any:
        """Call a synchronous method of the consumer on its event loop."""

        async def call() -> Any:
            return action(*arguments)

        with _errors():
            return LOOP.run(call())

    def _await(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        with _errors():
            return LOOP.run(work)

    def assign(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Read partitions without a group."""
        self._topic = topic
        self._call(self._consumer.assign, [self._partition(number) for number in offsets])
        for number, offset in offsets.items():
            self.seek(number, offset)

    def subscribe(self, *topics: str) -> None:
        """Join the group."""
        self._topic = topics[0]
        self._call(self._consumer.subscribe, topics)

    def poll(self, timeout_s: float = 0.1) -> list[Received]:
        """Return fetched messages."""
        return messages_of(self._await(self._consumer.poll(int(timeout_s * 1000))))

    def assignment(self) -> set[tuple[str, int]]:
        """Return the assigned partitions."""
        return {(one.topic, one.partition) for one in self._consumer.assignment()}

    def seek(self, partition: int, offset: int) -> None:
        """Continue reading from `offset`."""
        if offset == EARLIEST:
            self._call(self._consumer.seek_to_beginning, self._partition(partition))
        elif offset == LATEST:
            self._call(self._consumer.seek_to_end, self._partition(partition))
        else:
            self._call(self._consumer.seek, self._partition(partition), offset)

    def position(self, partition: int) -> int:
        """Return the offset after the last polled message."""
        return self._await(self._consumer.position(self._partition(partition)))

    def pause(self, *partitions: int) -> None:
        """Pause these partitions."""
        self._call(self._consumer.pause, *(self._partition(number) for number in partitions))

    def resume(self, *partitions: int) -> None:
        """Resume these partitions."""
        self._call(self._consumer.resume, *(self._partition(number) for number in partitions))

    def commit(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Commit and wait."""
        self._await(
            self._consumer.commit(
                {TopicPartition(topic, number): offset for number, offset in offsets.items()}
            )
        )

    def committed_offset(self, topic: str, partition: int) -> int | None:
        """Return the committed offset; None if there is none."""
        key = TopicPartition(topic, partition)
        committed = self._await(self._consumer.committed([key]))[key]
        return None if committed is None else committed.offset

    def offset_for_time(self, partition: int, timestamp_ms: int) -> int | None:
        """Return the first offset at or after a timestamp; None if there is none."""
        key = self._partition(partition)
        result = self._await(self._consumer.offsets_for_times({key: timestamp_ms}))[key]
        return None if result is None else result.offset

    def watermarks(self, partition: int) -> tuple[int, int]:
        """Return the first offset and the end offset from the broker."""
        key = self._partition(partition)
        low = self._await(self._consumer.beginning_offsets([key]))
        high = self._await(self._consumer.end_offsets([key]))
        return low[key], high[key]

    def close(self) -> None:
        """Leave the group."""
        LOOP.run(self._consumer.close())


class TidelogAdmin:
    """tidelog.Admin."""

    def __init__(self, servers: str) -> None:
        async def start() -> Admin:
            admin = Admin(servers)
            await admin.start()
            return admin

        self.client = LOOP.run(start())

    def _run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        with _errors():
            return LOOP.run(work)

    def _only_result(self, work: Coroutine[Any, Any, Mapping[Any, Any]]) -> Any:
        """Return the result for the only requested item."""
        (result,) = self._run(work).values()
        if isinstance(result, KafkaError):
            raise ForeignError(result.code, str(result))
        return result

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
        new = NewTopic(
            name=topic, num_partitions=partitions, replication_factor=replication, configs=config or {}
        )
        self._only_result(self.client.create_topics([new], validate_only=validate_only))

    def delete_topic(self, topic: str) -> None:
        """Delete a topic."""
        self._only_result(self.client.delete_topics([topic]))

    def topics(self) -> set[str]:
        """Return the names of all topics in the metadata."""
        return set(self._run(self.client.list_topics()))

    def partition_leaders(self, topic: str) -> dict[int, int]:
        """Return the leader of each partition."""
        described = self._only_result(self.client.describe_topics([topic]))
        return {partition.partition: partition.leader for partition in described.partitions}

    def add_partitions(self, topic: str, total: int) -> None:
        """Increase the number of partitions to `total`."""
        self._only_result(self.client.create_partitions({topic: total}))

    def config(self, topic: str) -> dict[str, str]:
        """Return the configs of a topic."""
        return self._describe(ConfigResource(ResourceType.TOPIC, topic))

    def broker_config(self, node_id: int) -> dict[str, str]:
        """Return the configs of a broker."""
        return self._describe(ConfigResource(ResourceType.BROKER, str(node_id)))

    def _describe(self, resource: ConfigResource) -> dict[str, str]:
        configs = self._only_result(self.client.describe_configs([resource]))
        return {key: entry.value for key, entry in configs.items()}

    def _alter(self, topic: str, key: str, value: str | None, operation: AlterOperation) -> None:
        self._alter_resource(ConfigResource(ResourceType.TOPIC, topic), key, value, operation)

    def _alter_resource(
        self, resource: ConfigResource, key: str, value: str | None, operation: AlterOperation
    ) -> None:
        change = ConfigChange(name=key, value=value, operation=operation)
        self._only_result(self.client.incremental_alter_configs({resource: [change]}))

    def set_config(self, topic: str, key: str, value: str) -> None:
        """Set one config of a topic."""
        self._alter(topic, key, value, AlterOperation.SET)

    def set_broker_config(self, node_id: int, key: str, value: str) -> None:
        """Set one config of a broker."""
        resource = ConfigResource(ResourceType.BROKER, str(node_id))
        self._alter_resource(resource, key, value, AlterOperation.SET)

    def unset_config(self, topic: str, key: str) -> None:
        """Reset one config to its default."""
        self._alter(topic, key, None, AlterOperation.DELETE)

    def append_config(self, topic: str, key: str, value: str) -> None:
        """Append a value to a list config."""
        self._alter(topic, key, value, AlterOperation.APPEND)

    def subtract_config(self, topic: str, key: str, value: str) -> None:
        """Remove a value from a list config."""
        self._alter(topic, key, value, AlterOperation.SUBTRACT)

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        """Delete the records below offset `before`; return the new log start offset."""
        return int(self._only_result(self.client.delete_records({TopicPartition(topic, partition): before})))

    def groups(self) -> set[str]:
        """Return the ids of all groups."""
        return set(self._run(self.client.list_groups()))

    def describe_group(self, group: str) -> GroupView:
        """Return the state of a group and the client ids of its members."""
        description = self._only_result(self.client.describe_groups([group]))
        return GroupView(
            description.state.lower(), tuple(sorted(member.client_id for member in description.members))
        )

    def group_offsets(self, group: str) -> dict[tuple[str, int], int]:
        """Return the committed offsets of a group by topic and partition."""
        offsets = self._run(self.client.list_group_offsets(group))
        return {(key.topic, key.partition): committed.offset for key, committed in offsets.items()}

    def set_group_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        """Commit an offset of a group without joining it."""
        self._only_result(self.client.alter_group_offsets(group, {TopicPartition(topic, partition): offset}))

    def delete_group(self, group: str) -> None:
        """Delete a group."""
        self._only_result(self.client.delete_groups([group]))

    def max_timestamp_offset(self, topic: str, partition: int) -> int:
        """Return the offset of the record with the largest timestamp."""
        wanted = {TopicPartition(topic, partition): OffsetSpec.MAX_TIMESTAMP}
        return int(self._only_result(self.client.list_offsets(wanted)).offset)

    def cluster(self) -> tuple[str, set[int]]:
        """Return the cluster id and the ids of the brokers."""
        description = self._run(self.client.describe_cluster())
        assert description.cluster_id is not None
        return description.cluster_id, {broker.node_id for broker in description.brokers}

    def close(self) -> None:
        """Close the connections."""
        LOOP.run(self.client.close())


TIDELOG = ForeignClient("tidelog", TidelogProducer, TidelogConsumer, TidelogAdmin)
