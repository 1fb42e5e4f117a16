"""The metadata topic through the bundled clients (shell): only calls and their conversion."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from tidelog.clients.admin.admin import Admin
from tidelog.clients.admin.types import NewTopic, TopicDescription
from tidelog.clients.config.client_config import ClientConfig, ConsumerConfig, ProducerConfig
from tidelog.clients.config.environment import Environment
from tidelog.clients.consumer.consumer import Consumer
from tidelog.clients.producer.producer import Producer
from tidelog.clients.transport.connection import Authenticator
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, Offset, TopicPartition
from tidelog.remote.metadata.config import METADATA_TOPIC, MetadataTopicConfig, client_options
from tidelog.remote.metadata.log_ports import (
    LogBounds,
    LogRecord,
    MetadataTopic,
    ReadRecords,
    WrongMetadataTopic,
)

_CLIENT_ID: Final = "__remote_log_metadata_client"
_POLL_RECORDS: Final = 250
"""The number of records that are applied at a time on the event loop: some milliseconds."""
_POSITION_WAIT_MS: Final = 1_000

_log = logging.getLogger(__name__)


class TopicClients(MetadataTopic):
    """Creates the clients of the metadata topic.

    `bootstrap_servers` is called for every client, and returns the node's own listener first. `values` are
    the manager's settings without prefix, which include those of the clients.
    """

    def __init__(
        self,
        bootstrap_servers: Callable[[], str],
        config: MetadataTopicConfig,
        broker_id: BrokerId,
        *,
        values: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
        environment: Environment | None = None,
        authenticator: Authenticator | None = None,
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._config = config
        self._client_id = f"{_CLIENT_ID}_{broker_id}"
        self._values = values or {}
        self._options = dict(options or {})
        self._connection_options: dict[str, Any] = {
            "environment": environment,
            "authenticator": authenticator,
        }

    async def ensure(self) -> None:
        """Create the topic unless it exists.

        Errors: WrongMetadataTopic if it has another number of partitions.
        """
        async with Admin(**self._arguments("admin", ClientConfig, "")) as admin:
            topic = (await admin.describe_topics([METADATA_TOPIC])).get(METADATA_TOPIC)
            if isinstance(topic, KafkaError) and topic.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                await self._create(admin)
                topic = (await admin.describe_topics([METADATA_TOPIC])).get(METADATA_TOPIC)
            if isinstance(topic, KafkaError):
                raise topic
            self._check(topic)

    async def open_writer(self) -> TopicWriter:
        """Return a producer that waits for all in-sync replicas."""
        arguments = self._arguments("producer", ProducerConfig, "_producer")
        producer = Producer(**{**arguments, "acks": "all", "enable_idempotence": True})
        await producer.start()
        return TopicWriter(producer)

    async def open_reader(self) -> TopicReader:
        """Return a consumer without a group."""
        fixed_options = {
            "group_id": None,
            "auto_offset_reset": "earliest",
            "exclude_internal_topics": False,
            "allow_auto_create_topics": False,
        }
        consumer = Consumer(**{**self._arguments("consumer", ConsumerConfig, "_consumer"), **fixed_options})
        await consumer.start()
        return TopicReader(consumer)

    async def _create(self, admin: Admin) -> None:
        config = self._config
        topic = NewTopic(
            name=METADATA_TOPIC,
            num_partitions=config.partitions,
            replication_factor=config.replication_factor,
            configs=config.topic_configs,
        )
        result = (await admin.create_topics([topic]))[METADATA_TOPIC]
        if not isinstance(result, KafkaError) or result.code is ErrorCode.TOPIC_ALREADY_EXISTS:
            return
        if result.code is ErrorCode.INVALID_REPLICATION_FACTOR:
            key = f"remote.log.metadata.topic.replication.factor={config.replication_factor}"
            raise KafkaError(result.code, f"cannot create topic {METADATA_TOPIC} with {key}: {result}")
        raise result

    def _check(self, topic: TopicDescription | None) -> None:
        count = 0 if topic is None else len(topic.partitions)
        if count != self._config.partitions:
            raise WrongMetadataTopic(
                f"topic {METADATA_TOPIC} has {count} partitions, but "
                f"remote.log.metadata.topic.num.partitions is {self._config.partitions}"
            )

    def _arguments(self, kind: str, config_type: type[ClientConfig], suffix: str) -> dict[str, Any]:
        options = _convert_types(client_options(self._values, kind), config_type)
        fixed_options = {
            "bootstrap_servers": self._bootstrap_servers(),
            "client_id": self._client_id + suffix,
        }
        return {**self._options, **options, **fixed_options, **self._connection_options}


class TopicWriter:
    """A producer of the metadata topic."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    async def append(self, metadata_partition: int, value: bytes) -> Offset:
        """Write one record and return its offset when all in-sync replicas have it."""
        metadata = await self._producer.send_and_wait(METADATA_TOPIC, value, partition=metadata_partition)
        if metadata.offset < 0:
            # An earlier attempt has written it; its offset is unknown.
            raise KafkaError(
                ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
                f"a record was written to {METADATA_TOPIC}-{metadata_partition}, but its offset is unknown",
            )
        return metadata.offset

    async def close(self) -> None:
        """Disconnect."""
        await self._producer.close()


class TopicReader:
    """A consumer of the metadata topic."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._positions: dict[int, Offset] = {}

    async def bounds(self, metadata_partitions: Sequence[int]) -> dict[int, LogBounds]:
        """Return the current bounds of `metadata_partitions`."""
        names = [TopicPartition(METADATA_TOPIC, number) for number in metadata_partitions]
        starts = await self._consumer.beginning_offsets(names)
        ends = await self._consumer.end_offsets(names)
        return {name.partition: LogBounds(starts[name], ends[name]) for name in names}

    async def read(self, positions: Mapping[int, Offset], max_wait_ms: int) -> list[ReadRecords]:
        """Return the records at `positions`, and wait up to `max_wait_ms` for the first one."""
        self._set_positions(positions)
        batches = await self._consumer.poll(max_wait_ms, _POLL_RECORDS)
        results = []
        for name, records in batches.items():
            read = [LogRecord(record.offset, record.value or b"") for record in records]
            results.append(ReadRecords(name.partition, read, read[-1].offset + 1))
        for number in positions if not batches else ():
            position = await self._consumer.position(
                TopicPartition(METADATA_TOPIC, number), _POSITION_WAIT_MS
            )
            if position > positions[number]:
                results.append(ReadRecords(number, (), position))  # only control records were skipped
        self._positions.update((read.metadata_partition, read.next_offset) for read in results)
        return results

    def stop_fetching(self) -> None:
        """Send no requests until the next `read`: a consumer fetches ahead of its partitions."""
        self._set_positions({})

    async def close(self) -> None:
        """Disconnect."""
        await self._consumer.close()

    def _set_positions(self, positions: Mapping[int, Offset]) -> None:
        if positions.keys() != self._positions.keys():
            self._consumer.assign([TopicPartition(METADATA_TOPIC, number) for number in positions])
        for number, position in positions.items():
            if self._positions.get(number) != position:
                self._consumer.seek(TopicPartition(METADATA_TOPIC, number), position)
        self._positions = dict(positions)


def _convert_types(texts: Mapping[str, str], config_type: type[ClientConfig]) -> dict[str, Any]:
    """Convert `texts` to the types of the options' defaults; omit options that our clients do not have."""
    defaults = {field.name: field.default for field in fields(config_type)}
    options: dict[str, Any] = {}
    for name, text in texts.items():
        if name not in defaults:
            _log.warning(
                "Ignoring option %s: unknown to the clients of the remote log metadata manager",
                name.replace("_", "."),
            )
            continue
        default = defaults[name]
        if isinstance(default, bool):
            options[name] = text.lower() == "true"
        else:
            options[name] = int(text) if isinstance(default, int) else text
    return options
