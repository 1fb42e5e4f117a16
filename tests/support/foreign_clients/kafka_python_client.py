"""kafka-python behind the common interface."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import kafka
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetSpec, TopicPartition
from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

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

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}
LOCAL_ERROR = -1000
POLL_MS = 300


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except kafka.errors.KafkaError as failure:
        code = getattr(failure, "errno", None)
        raise ForeignError(LOCAL_ERROR if code is None else code, repr(failure)) from failure


class KafkaPythonProducer:
    """kafka.KafkaProducer."""

    def __init__(self, servers: str, options: ProducerOptions) -> None:
        self._pending: list[Any] = []
        self._producer = KafkaProducer(
            bootstrap_servers=servers,
            compression_type=None if options.compression == "none" else options.compression,
            acks=options.acks,
            enable_idempotence=options.idempotent,
            linger_ms=options.linger_ms,
            batch_size=options.batch_bytes,
            max_request_size=options.request_bytes_max,
            max_block_ms=options.unknown_topic_ms,
            reconnect_backoff_max_ms=200,
        )

    def send(self, topic: str, messages: Iterable[Message]) -> None:
        """Queue messages."""
        with _errors():
            for message in messages:
                self._pending.append(
                    self._producer.send(
                        topic,
                        value=message.value,
                        key=message.key,
                        headers=list(message.headers),
                        partition=message.partition,
                        timestamp_ms=message.timestamp_ms,
                    )
                )

    def flush(self) -> list[Receipt]:
        """Wait for every future."""
        pending, self._pending = self._pending, []
        with _errors():
            self._producer.flush(timeout=DEADLINE_S)
            responses = [future.get(timeout=DEADLINE_S) for future in pending]
        return [
            Receipt(response.partition, -1 if response.offset is None else response.offset)
            for response in responses
        ]

    def close(self) -> None:
        """Stop the producer."""
        self._producer.close(timeout=2)


class KafkaPythonConsumer:
    """kafka.KafkaConsumer, used from a separate thread."""

    def __init__(self, servers: str, options: ConsumerOptions) -> None:
        self._topic = ""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kafka-python")
        self._background_poll = BackgroundPoll(lambda: self._thread.submit(self._poll))
        self._consumer = KafkaConsumer(
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
            receive_message_max_bytes=options.fetch_bytes_max + 10_000_000,
            session_timeout_ms=options.session_timeout_ms,
            max_poll_interval_ms=options.poll_interval_ms_max,
            metadata_max_age_ms=options.metadata_age_ms_max,
            allow_auto_create_topics=options.auto_create,
            heartbeat_interval_ms=100,
            fetch_max_wait_ms=50,
            reconnect_backoff_max_ms=200,
        )

    def _call(self, action: Any, *arguments: Any) -> Any:
        with _errors():
            return self._thread.submit(action, *arguments).result(2 * DEADLINE_S)

    def assign(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Read partitions without a group."""
        self._topic = topic
        self._call(self._consumer.assign, [TopicPartition(topic, number) for number in offsets])
        for number, offset in offsets.items():
            self.seek(number, offset)

    def _partition(self, partition: int) -> TopicPartition:
        return TopicPartition(self._topic, partition)

    def subscribe(self, *topics: str) -> None:
        """Join the group."""
        self._topic = topics[0]
        self._call(self._consumer.subscribe, list(topics))

    def _poll(self) -> Any:
        """Poll once, and request a rejoin if the poll ended during one.

        kafka-python 3.0.12 does not do this. If a group leader rejoins because of new partitions, and its
        poll ends after it computed the assignment and before it received the SyncGroup response, it does not
        join any more: it gets no partitions, sends no heartbeats and is removed from the group. With the
        request, the next poll waits for the rebalance in progress.
        """
        records = self._consumer.poll(POLL_MS, 10_000)
        coordinator = self._consumer._coordinator
        if coordinator.rejoining:
            coordinator.request_rejoin()
        return records

    def poll(self, timeout_s: float = 0.1) -> list[Received]:
        """Return fetched messages."""
        with _errors():
            return messages_of(self._background_poll.poll(timeout_s))

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
        return int(self._call(self._consumer.position, self._partition(partition)))

    def pause(self, *partitions: int) -> None:
        """Pause these partitions."""
        self._call(self._consumer.pause, *(self._partition(number) for number in partitions))

    def resume(self, *partitions: int) -> None:
        """Resume these partitions."""
        self._call(self._consumer.resume, *(self._partition(number) for number in partitions))

    def commit(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Commit and wait."""
        self._call(
            self._consumer.commit,
            {
                TopicPartition(topic, number): kafka.OffsetAndMetadata(offset, "", -1)
                for number, offset in offsets.items()
            },
        )

    def committed_offset(self, topic: str, partition: int) -> int | None:
        """Return the committed offset; None if there is none."""
        offset: int | None = self._call(self._consumer.committed, TopicPartition(topic, partition))
        return offset

    def offset_for_time(self, partition: int, timestamp_ms: int) -> int | None:
        """Return the first offset at or after a timestamp; None if there is none."""
        key = self._partition(partition)
        record_place = self._call(self._consumer.offsets_for_times, {key: timestamp_ms})[key]
        offset: int | None = None if record_place is None or record_place.offset < 0 else record_place.offset
        return offset

    def watermarks(self, partition: int) -> tuple[int, int]:
        """Return the first offset and the end offset from the broker."""
        key = self._partition(partition)
        low = self._call(self._consumer.beginning_offsets, [key])
        high = self._call(self._consumer.end_offsets, [key])
        return low[key], high[key]

    def close(self) -> None:
        """Leave the group."""
        self._thread.submit(self._consumer.close, autocommit=False, timeout_ms=2000).result(DEADLINE_S)
        self._thread.shutdown()


class KafkaPythonAdmin:
    """kafka.KafkaAdminClient."""

    def __init__(self, servers: str) -> None:
        self.client = KafkaAdminClient(bootstrap_servers=servers)

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
        options = {
            "num_partitions": partitions,
            "replication_factor": replication,
            "configs": dict(config or {}),
        }
        with _errors():
            self.client.create_topics({topic: options}, validate_only=validate_only)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic."""
        with _errors():
            self.client.delete_topics([topic])

    def topics(self) -> set[str]:
        """Return the names of all topics in the metadata."""
        with _errors():
            return set(self.client.list_topics())

    def partition_leaders(self, topic: str) -> dict[int, int]:
        """Return the leader of each partition."""
        with _errors():
            (described,) = self.client.describe_topics([topic])
        _raise(described["error_code"], described)
        return {entry["partition_index"]: entry["leader_id"] for entry in described["partitions"]}

    def add_partitions(self, topic: str, total: int) -> None:
        """Increase the number of partitions to `total`."""
        with _errors():
            self.client.create_partitions({topic: total})

    def config(self, topic: str) -> dict[str, str]:
        """Return the configs of a topic."""
        return self._describe(ConfigResourceType.TOPIC, topic)

    def broker_config(self, node_id: int) -> dict[str, str]:
        """Return the configs of a broker."""
        return self._describe(ConfigResourceType.BROKER, str(node_id))

    def _describe(self, kind: ConfigResourceType, name: str) -> dict[str, str]:
        with _errors():
            descriptions = self.client.describe_configs([ConfigResource(kind, name)], config_filter="all")
        (entries,) = (resources[name] for resources in descriptions.values())
        return {key: entry["value"] for key, entry in entries.items()}

    def _alter(self, topic: str, key: str, operation: AlterConfigOp, value: str | None) -> None:
        self._alter_resource(ConfigResourceType.TOPIC, topic, key, operation, value)

    def _alter_resource(
        self, kind: ConfigResourceType, name: str, key: str, operation: AlterConfigOp, value: str | None
    ) -> None:
        resource = ConfigResource(kind, name, {key: (operation, value)})
        with _errors():
            response = self.client.alter_configs([resource], raise_on_unknown=False)
        (outcome,) = (outcomes[name] for outcomes in response.values())
        if outcome != "OK":
            code = re.match(r"\[Error (\d+)\]", outcome)
            raise ForeignError(int(code[1]) if code else LOCAL_ERROR, outcome)

    def set_config(self, topic: str, key: str, value: str) -> None:
        """Set one config of a topic."""
        self._alter(topic, key, AlterConfigOp.SET, value)

    def set_broker_config(self, node_id: int, key: str, value: str) -> None:
        """Set one config of a broker."""
        self._alter_resource(ConfigResourceType.BROKER, str(node_id), key, AlterConfigOp.SET, value)

    def unset_config(self, topic: str, key: str) -> None:
        """Reset one config to its default."""
        self._alter(topic, key, AlterConfigOp.DELETE, None)

    def append_config(self, topic: str, key: str, value: str) -> None:
        """Append a value to a list config."""
        self._alter(topic, key, AlterConfigOp.APPEND, value)

    def subtract_config(self, topic: str, key: str, value: str) -> None:
        """Remove a value from a list config."""
        self._alter(topic, key, AlterConfigOp.SUBTRACT, value)

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        """Delete the records below offset `before`; return the new log start offset."""
        key = TopicPartition(topic, partition)
        with _errors():
            return int(self.client.delete_records({key: before})[key]["low_watermark"])

    def groups(self) -> set[str]:
        """Return the ids of all groups."""
        with _errors():
            return {group["group_id"] for group in self.client.list_groups()}

    def describe_group(self, group: str) -> GroupView:
        """Return the state of a group and the client ids of its members."""
        with _errors():
            description = self.client.describe_groups([group])[group]
        if description["error"]:
            raise ForeignError(LOCAL_ERROR, description["error"])
        members = (member["client_id"] for member in description["members"])
        return GroupView(description["group_state"].lower(), tuple(sorted(members)))

    def group_offsets(self, group: str) -> dict[tuple[str, int], int]:
        """Return the committed offsets of a group by topic and partition."""
        with _errors():
            offsets = self.client.list_group_offsets(group)[group]
        return {(key.topic, key.partition): committed.offset for key, committed in offsets.items()}

    def set_group_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        """Commit an offset of a group without joining it."""
        key = TopicPartition(topic, partition)
        with _errors():
            results = self.client.alter_group_offsets(group, {key: kafka.OffsetAndMetadata(offset, "", -1)})
        _raise(results[key].errno, results)

    def delete_group(self, group: str) -> None:
        """Delete a group."""
        with _errors():
            outcome = self.client.delete_groups([group])[group]
        if outcome != "OK":
            raise ForeignError(getattr(kafka.errors, outcome).errno, outcome)

    def max_timestamp_offset(self, topic: str, partition: int) -> int:
        """Return the offset of the record with the largest timestamp."""
        key = TopicPartition(topic, partition)
        with _errors():
            offsets = self.client.list_partition_offsets({key: OffsetSpec.MAX_TIMESTAMP})
        return int(offsets[key].offset)

    def cluster(self) -> tuple[str, set[int]]:
        """Return the cluster id and the ids of the brokers."""
        with _errors():
            description = self.client.describe_cluster()
        return description["cluster_id"], {broker["broker_id"] for broker in description["brokers"]}

    def close(self) -> None:
        """Close the connections."""
        self.client.close()


def _raise(code: int, context: object) -> None:
    if code:
        raise ForeignError(code, f"{kafka.errors.for_code(code).__name__} {context}")


KAFKA_PYTHON = ForeignClient("kafka_python", KafkaPythonProducer, KafkaPythonConsumer, KafkaPythonAdmin)
