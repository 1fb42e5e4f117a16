"""The operations of every client library under test, with plain values and without coroutines.

Offsets and counts are ints, times are milliseconds, errors are Kafka's numbers. A topic's
partitions are named by number, because no test here needs two topics in one consumer,
except `subscribe`, which takes several.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

DEADLINE_S = 60.0

EARLIEST = -2
LATEST = -1

Headers = tuple[tuple[str, bytes | None], ...]


class ForeignError(Exception):
    """An error of a client: Kafka's error code, or a negative code of the client itself."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


@dataclass(frozen=True, slots=True)
class Message:
    """A message to send."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int = 0


@dataclass(frozen=True, slots=True)
class Receipt:
    """The acknowledgement of one message; -1 if the response has no offset (acks=0)."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Received:
    """A received message; `timestamp_type` is 0 for CreateTime and 1 for LogAppendTime."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int
    timestamp_type: int

    @property
    def content(self) -> tuple[bytes | None, bytes | None, Headers]:
        """Return the fields set by the producer."""
        return self.key, self.value, self.headers


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group as an admin client shows it; `clients` are the client ids of its members."""

    state: str
    clients: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions:
    """The settings that all clients support."""

    compression: str = "none"
    acks: int = -1
    idempotent: bool = False
    linger_ms: int = 5
    batch_bytes: int = 16_384
    request_bytes_max: int = 8_000_000
    unknown_topic_ms: int = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions:
    """The settings that all clients support, with short timeouts for tests."""

    group: str | None = None
    client_id: str = "interop"
    instance_id: str | None = None
    offset_reset: str = "earliest"
    isolation: str = "read_uncommitted"
    assignor: str = "range"
    auto_commit: bool = False
    partition_bytes_max: int = 1_048_576
    fetch_bytes_max: int = 52_428_800
    session_timeout_ms: int = 10_000
    poll_interval_ms_max: int = 60_000
    metadata_age_ms_max: int = 300_000
    auto_create: bool = False


class ForeignProducer(Protocol):
    """A started producer."""

    def send(self, topic: str, messages: Iterable[Message]) -> None:
        """Send messages without waiting for responses."""
        ...

    def flush(self) -> list[Receipt]:
        """Wait for all messages sent since the last flush, in order. Errors: ForeignError."""
        ...

    def close(self) -> None: ...


class ForeignConsumer(Protocol):
    """A started consumer of one topic, or a member of a group."""

    def assign(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Read these partitions from these offsets (EARLIEST and LATEST are allowed)."""
        ...

    def subscribe(self, *topics: str) -> None: ...

    def poll(self, timeout_s: float = 0.1) -> list[Received]:
        """Return available messages, possibly none. Errors: ForeignError."""
        ...

    def assignment(self) -> set[tuple[str, int]]: ...

    def seek(self, partition: int, offset: int) -> None: ...

    def position(self, partition: int) -> int: ...

    def pause(self, *partitions: int) -> None: ...

    def resume(self, *partitions: int) -> None: ...

    def commit(self, topic: str, offsets: Mapping[int, int]) -> None: ...

    def committed_offset(self, topic: str, partition: int) -> int | None: ...

    def offset_for_time(self, partition: int, timestamp_ms: int) -> int | None:
        """Return the first offset at or after a timestamp; None if there is none."""
        ...

    def watermarks(self, partition: int) -> tuple[int, int]:
        """Return the first offset and the end offset."""
        ...

    def close(self) -> None: ...


class ForeignAdmin(Protocol):
    """A started admin client; every method raises ForeignError with Kafka's code."""

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
        replication: int = 1,
        *,
        validate_only: bool = False,
    ) -> None: ...

    def delete_topic(self, topic: str) -> None: ...

    def topics(self) -> set[str]: ...

    def partition_leaders(self, topic: str) -> dict[int, int]: ...

    def add_partitions(self, topic: str, total: int) -> None: ...

    def config(self, topic: str) -> dict[str, str]: ...

    def broker_config(self, node_id: int) -> dict[str, str]: ...

    def set_config(self, topic: str, key: str, value: str) -> None: ...

    def set_broker_config(self, node_id: int, key: str, value: str) -> None: ...

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        """Return the new log start offset."""
        ...

    def groups(self) -> set[str]: ...

    def describe_group(self, group: str) -> GroupView: ...

    def group_offsets(self, group: str) -> dict[tuple[str, int], int]: ...

    def cluster(self) -> tuple[str, set[int]]:
        """Return the cluster id and the ids of the brokers."""
        ...

    def close(self) -> None: ...


class GroupAdmin(ForeignAdmin, Protocol):
    """Operations that confluent-kafka and kafka-python support and aiokafka does not."""

    def unset_config(self, topic: str, key: str) -> None: ...

    def append_config(self, topic: str, key: str, value: str) -> None: ...

    def subtract_config(self, topic: str, key: str, value: str) -> None: ...

    def set_group_offset(self, group: str, topic: str, partition: int, offset: int) -> None: ...

    def delete_group(self, group: str) -> None: ...

    def max_timestamp_offset(self, topic: str, partition: int) -> int: ...


@dataclass(frozen=True)
class ForeignClient:
    """A client library: creates its producer, consumer and admin client."""

    name: str
    producer: Callable[[str, ProducerOptions], ForeignProducer]
    consumer: Callable[[str, ConsumerOptions], ForeignConsumer]
    admin: Callable[[str], ForeignAdmin]


def messages_of(polled: Mapping[Any, Iterable[Any]]) -> list[Received]:
    """Return the messages of a poll whose records have the attributes of those of kafka-python."""
    return [
        Received(
            record.topic,
            record.partition,
            record.offset,
            record.key,
            record.value,
            tuple((name, value) for name, value in record.headers),
            record.timestamp,
            int(record.timestamp_type),
        )
        for records in polled.values()
        for record in records
    ]


def read_exactly(consumer: ForeignConsumer, count: int, deadline_s: float = DEADLINE_S) -> list[Received]:
    """Poll until `count` messages were read; AssertionError if there are fewer."""
    received: list[Received] = []
    ends = time.monotonic() + deadline_s
    while len(received) < count:
        received += consumer.poll(0.2)
        assert time.monotonic() < ends, f"{len(received)} of {count} messages came within {deadline_s:.0f} s"
    return received


def poll_all_until(
    consumers: Sequence[ForeignConsumer],
    condition: Callable[[list[Received]], bool],
    what: str,
    deadline_s: float = DEADLINE_S,
) -> list[Received]:
    """Poll several consumers alternately until `condition` is true for all messages, and return them."""
    received: list[Received] = []
    ends = time.monotonic() + deadline_s
    while not condition(received):
        for consumer in consumers:
            received += consumer.poll(0.02)
        assert time.monotonic() < ends, f"within {deadline_s:.0f} s there was no {what}"
    return received
