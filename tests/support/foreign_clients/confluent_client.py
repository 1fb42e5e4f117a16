"""confluent-kafka, which uses librdkafka, behind the common interface."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import confluent_kafka
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

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
)

CREATE_TIME, LOG_APPEND_TIME = 0, 1
_TIMESTAMP_TYPES = {
    confluent_kafka.TIMESTAMP_CREATE_TIME: CREATE_TIME,
    confluent_kafka.TIMESTAMP_LOG_APPEND_TIME: LOG_APPEND_TIME,
}
_SPECIAL = {EARLIEST: confluent_kafka.OFFSET_BEGINNING, LATEST: confluent_kafka.OFFSET_END}


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except confluent_kafka.KafkaException as failure:
        raise _error(failure.args[0]) from failure


def _error(error: Any) -> ForeignError:
    return ForeignError(error.code(), f"{error.name()} {error.str()}")


class ConfluentProducer:
    """confluent_kafka.Producer."""

    def __init__(self, servers: str, options: ProducerOptions) -> None:
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": servers,
                "compression.type": options.compression,
                "acks": options.acks,
                "enable.idempotence": options.idempotent,
                "linger.ms": options.linger_ms,
                "batch.size": options.batch_bytes,
                "message.max.bytes": options.request_bytes_max,
                "topic.metadata.propagation.max.ms": options.unknown_topic_ms,
                "queue.buffering.max.kbytes": 1_000_000,
                "reconnect.backoff.max.ms": 200,
            }
        )
        self._outcomes: list[Receipt | ForeignError | None] = []

    def send(self, topic: str, messages: Iterable[Message]) -> None:
        """Queue messages."""
        for message in messages:
            index = len(self._outcomes)
            self._outcomes.append(None)
            self._producer.poll(0)
            with _errors():
                self._producer.produce(
                    topic,
                    message.value,
                    message.key,
                    message.partition,
                    headers=list(message.headers),
                    timestamp=message.timestamp_ms or 0,
                    on_delivery=self._report_to(index),
                )

    def _report_to(self, index: int) -> Any:
        outcomes = self._outcomes

        def report(error: Any, message: Any) -> None:
            offset = message.offset()
            outcomes[index] = (
                _error(error)
                if error is not None
                else Receipt(message.partition(), -1 if offset is None or offset < 0 else offset)
            )

        return report

    def flush(self) -> list[Receipt]:
        """Wait for every delivery report."""
        left = self._producer.flush(DEADLINE_S)
        assert left == 0, f"{left} messages were not delivered"
        outcomes, self._outcomes = self._outcomes, []
        receipts = []
        for outcome in outcomes:
            if isinstance(outcome, ForeignError):
                raise outcome
            assert outcome is not None, "a message has no delivery report"
            receipts.append(outcome)
        return receipts

    def close(self) -> None:
        """Discard undelivered messages."""
        self._producer.purge()
        self._producer.flush(1)


class ConfluentConsumer:
    """confluent_kafka.Consumer."""

    def __init__(self, servers: str, options: ConsumerOptions) -> None:
        self._topic = ""
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": servers,
                "client.id": options.client_id,
                "group.id": options.group or "unused",
                **({"group.instance.id": options.instance_id} if options.instance_id else {}),
                "auto.offset.reset": options.offset_reset,
                "isolation.level": options.isolation,
                "partition.assignment.strategy": options.assignor,
                "enable.auto.commit": options.auto_commit,
                "auto.commit.interval.ms": 200,
                "max.partition.fetch.bytes": options.partition_bytes_max,
                "fetch.max.bytes": options.fetch_bytes_max,
                "receive.message.max.bytes": options.fetch_bytes_max + 10_000_000,
                "session.timeout.ms": options.session_timeout_ms,
                "max.poll.interval.ms": options.poll_interval_ms_max,
                "topic.metadata.refresh.interval.ms": options.metadata_age_ms_max,
                "metadata.max.age.ms": options.metadata_age_ms_max,
                "allow.auto.create.topics": options.auto_create,
                "heartbeat.interval.ms": 100,
                "fetch.wait.max.ms": 50,
                "check.crcs": True,
                "enable.partition.eof": False,
                "reconnect.backoff.max.ms": 200,
            }
        )

    def assign(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Read partitions without a group."""
        self._topic = topic
        self._consumer.assign(
            [TopicPartition(topic, number, _SPECIAL.get(at, at)) for number, at in offsets.items()]
        )

    def subscribe(self, *topics: str) -> None:
        """Join the group."""
        self._topic = topics[0]
        self._consumer.subscribe(list(topics))

    def poll(self, timeout_s: float = 0.1) -> list[Received]:
        """Return at most 10,000 messages."""
        with _errors():
            messages = self._consumer.consume(10_000, timeout_s)
        return [self._message_of(message) for message in messages]

    @staticmethod
    def _message_of(message: Any) -> Received:
        if message.error() is not None:
            raise _error(message.error())
        kind, timestamp_ms = message.timestamp()
        return Received(
            message.topic(),
            message.partition(),
            message.offset(),
            message.key(),
            message.value(),
            tuple(message.headers() or ()),
            timestamp_ms,
            _TIMESTAMP_TYPES[kind],
        )

    def assignment(self) -> set[tuple[str, int]]:
        """Return the assigned partitions."""
        return {(one.topic, one.partition) for one in self._consumer.assignment()}

    def _partition(self, partition: int, offset: int = confluent_kafka.OFFSET_INVALID) -> TopicPartition:
        return TopicPartition(self._topic, partition, offset)

    def seek(self, partition: int, offset: int) -> None:
        """Continue reading from `offset`."""
        with _errors():
            self._consumer.seek(self._partition(partition, _SPECIAL.get(offset, offset)))

    def position(self, partition: int) -> int:
        """Return the offset after the last polled message."""
        (position,) = self._consumer.position([self._partition(partition)])
        return int(position.offset)

    def pause(self, *partitions: int) -> None:
        """Pause these partitions."""
        self._consumer.pause([self._partition(number) for number in partitions])

    def resume(self, *partitions: int) -> None:
        """Resume these partitions."""
        self._consumer.resume([self._partition(number) for number in partitions])

    def commit(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Commit and wait."""
        with _errors():
            results = self._consumer.commit(
                offsets=[TopicPartition(topic, number, offset) for number, offset in offsets.items()],
                asynchronous=False,
            )
        for result in results or ():
            if result.error is not None:
                raise _error(result.error)

    def committed_offset(self, topic: str, partition: int) -> int | None:
        """Return the committed offset; None if there is none."""
        with _errors():
            (committed,) = self._consumer.committed([TopicPartition(topic, partition)], timeout=DEADLINE_S)
        return committed.offset if committed.offset >= 0 else None

    def offset_for_time(self, partition: int, timestamp_ms: int) -> int | None:
        """Return the first offset at or after a timestamp; None if there is none."""
        with _errors():
            (result,) = self._consumer.offsets_for_times(
                [self._partition(partition, timestamp_ms)], timeout=DEADLINE_S
            )
        if result.error is not None:
            raise _error(result.error)
        return result.offset if result.offset >= 0 else None

    def watermarks(self, partition: int) -> tuple[int, int]:
        """Return the first offset and the end offset from the broker."""
        with _errors():
            low, high = self._consumer.get_watermark_offsets(self._partition(partition), timeout=DEADLINE_S)
        return low, high

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()


class ConfluentAdmin:
    """confluent_kafka.admin.AdminClient."""

    def __init__(self, servers: str) -> None:
        self.client = AdminClient({"bootstrap.servers": servers})

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
        new = NewTopic(topic, partitions, replication, config=dict(config or {}))
        _only_result(self.client.create_topics([new], validate_only=validate_only))

    def delete_topic(self, topic: str) -> None:
        """Delete a topic."""
        _only_result(self.client.delete_topics([topic]))

    def topics(self) -> set[str]:
        """Return the names of all topics in the metadata."""
        with _errors():
            return set(self.client.list_topics(timeout=DEADLINE_S).topics)

    def partition_leaders(self, topic: str) -> dict[int, int]:
        """Return the leader of each partition."""
        described = _only_result(self.client.describe_topics(confluent_kafka.TopicCollection([topic])))
        return {partition.id: partition.leader.id for partition in described.partitions}

    def add_partitions(self, topic: str, total: int) -> None:
        """Increase the number of partitions to `total`."""
        _only_result(self.client.create_partitions([NewPartitions(topic, total)]))

    def config(self, topic: str) -> dict[str, str]:
        """Return the configs of a topic."""
        return self._describe(ResourceType.TOPIC, topic)

    def broker_config(self, node_id: int) -> dict[str, str]:
        """Return the configs of a broker."""
        return self._describe(ResourceType.BROKER, str(node_id))

    def _describe(self, kind: ResourceType, name: str) -> dict[str, str]:
        entries = _only_result(self.client.describe_configs([ConfigResource(kind, name)]))
        return {key: entry.value for key, entry in entries.items()}

    def _alter(self, topic: str, key: str, value: str | None, operation: AlterConfigOpType) -> None:
        self._alter_resource(ResourceType.TOPIC, topic, key, value, operation)

    def _alter_resource(
        self, kind: ResourceType, name: str, key: str, value: str | None, operation: AlterConfigOpType
    ) -> None:
        entry = ConfigEntry(key, value, incremental_operation=operation)
        resource = ConfigResource(kind, name, incremental_configs=[entry])
        _only_result(self.client.incremental_alter_configs([resource]))

    def set_config(self, topic: str, key: str, value: str) -> None:
        """Set one config of a topic."""
        self._alter(topic, key, value, AlterConfigOpType.SET)

    def set_broker_config(self, node_id: int, key: str, value: str) -> None:
        """Set one config of a broker."""
        self._alter_resource(ResourceType.BROKER, str(node_id), key, value, AlterConfigOpType.SET)

    def unset_config(self, topic: str, key: str) -> None:
        """Reset one config to its default."""
        self._alter(topic, key, None, AlterConfigOpType.DELETE)

    def append_config(self, topic: str, key: str, value: str) -> None:
        """Append a value to a list config."""
        self._alter(topic, key, value, AlterConfigOpType.APPEND)

    def subtract_config(self, topic: str, key: str, value: str) -> None:
        """Remove a value from a list config."""
        self._alter(topic, key, value, AlterConfigOpType.SUBTRACT)

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        """Delete the records below offset `before`; return the new log start offset."""
        deleted = _only_result(self.client.delete_records([TopicPartition(topic, partition, before)]))
        return int(deleted.low_watermark)

    def groups(self) -> set[str]:
        """Return the ids of all groups."""
        with _errors():
            listed = self.client.list_consumer_groups().result(DEADLINE_S)
        assert not listed.errors
        return {group.group_id for group in listed.valid}

    def describe_group(self, group: str) -> GroupView:
        """Return the state of a group and the client ids of its members."""
        description = _only_result(self.client.describe_consumer_groups([group]))
        state = description.state.name.replace("_", "").lower()
        return GroupView(state, tuple(sorted(member.client_id for member in description.members)))

    def group_offsets(self, group: str) -> dict[tuple[str, int], int]:
        """Return the committed offsets of a group by topic and partition."""
        request = confluent_kafka.ConsumerGroupTopicPartitions(group)
        response = _only_result(self.client.list_consumer_group_offsets([request]))
        return {
            (partition.topic, partition.partition): partition.offset
            for partition in response.topic_partitions
        }

    def set_group_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        """Commit an offset of a group without joining it."""
        request = confluent_kafka.ConsumerGroupTopicPartitions(
            group, [TopicPartition(topic, partition, offset)]
        )
        (result,) = _only_result(self.client.alter_consumer_group_offsets([request])).topic_partitions
        if result.error is not None:
            raise _error(result.error)

    def delete_group(self, group: str) -> None:
        """Delete a group."""
        _only_result(self.client.delete_consumer_groups([group]))

    def max_timestamp_offset(self, topic: str, partition: int) -> int:
        """Return the offset of the record with the largest timestamp."""
        request = {TopicPartition(topic, partition): OffsetSpec.max_timestamp()}
        return int(_only_result(self.client.list_offsets(request)).offset)

    def cluster(self) -> tuple[str, set[int]]:
        """Return the cluster id and the ids of the brokers."""
        with _errors():
            description = self.client.describe_cluster().result(DEADLINE_S)
        return description.cluster_id, {node.id for node in description.nodes}

    def close(self) -> None:
        """Do nothing; the client is closed with its last reference."""


def _only_result(futures: Mapping[Any, Future[Any]]) -> Any:
    """Return the result of the only request."""
    (future,) = futures.values()
    with _errors():
        return future.result(DEADLINE_S)


CONFLUENT = ForeignClient("confluent", ConfluentProducer, ConfluentConsumer, ConfluentAdmin)
