"""Timestamps, watermarks, seeking and pausing with each client."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.support.foreign_clients import CLIENTS, ForeignClient, ForeignConsumer, ForeignError, Message
from tests.support.foreign_clients.client_factory import ClientFactory
from tests.support.foreign_clients.interface import EARLIEST, LATEST, read_exactly
from tests.support.waiting import wait_until
from tidelog.protocol.errors import ErrorCode

pytestmark = pytest.mark.interop

CREATE_TIME, LOG_APPEND_TIME = 0, 1
THEN_MS = 1_700_000_000_000


def numbered_messages(count: int, partition: int = 0) -> list[Message]:
    return [Message(b"%d" % n, b"k", partition=partition) for n in range(count)]


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_the_timestamp_of_the_producer_is_kept(
    client: ForeignClient, codec: str, topic: str, client_factory: ClientFactory
) -> None:
    messages = [Message(b"%d" % n, timestamp_ms=THEN_MS + n * 7) for n in range(20)]
    client_factory.produce(client, topic, messages, compression=codec, linger_ms=50)
    for reader in CLIENTS.values():
        received = client_factory.consume(reader, topic, 20)
        assert [one.timestamp_ms for one in received] == [message.timestamp_ms for message in messages]
        assert {one.timestamp_type for one in received} == {CREATE_TIME}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_log_append_time_uses_the_clock_of_the_broker(
    client: ForeignClient, codec: str, new_topic: Callable[..., str], client_factory: ClientFactory
) -> None:
    topic = new_topic(config={"message.timestamp.type": "LogAppendTime"})
    before_ms = int(time.time() * 1000)
    messages = [Message(b"%d" % n, timestamp_ms=THEN_MS + n) for n in range(20)]
    client_factory.produce(client, topic, messages, compression=codec, linger_ms=50)
    after_ms = int(time.time() * 1000)
    for reader in CLIENTS.values():
        received = client_factory.consume(reader, topic, 20)
        assert {one.timestamp_type for one in received} == {LOG_APPEND_TIME}
        assert all(before_ms <= one.timestamp_ms <= after_ms for one in received)


def test_a_timestamp_too_far_in_the_future_is_refused(
    client: ForeignClient, new_topic: Callable[..., str], client_factory: ClientFactory
) -> None:
    topic = new_topic(config={"message.timestamp.after.max.ms": "1000"})
    producer = client_factory.producer(client)
    producer.send(topic, [Message(b"v", timestamp_ms=int(time.time() * 1000) + 600_000)])
    with pytest.raises(ForeignError) as refused:
        producer.flush()
    assert refused.value.code == ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_offsets_are_found_by_timestamp(
    client: ForeignClient, codec: str, topic: str, client_factory: ClientFactory
) -> None:
    messages = [Message(b"%d" % n, timestamp_ms=THEN_MS + n * 10) for n in range(100)]
    client_factory.produce(client, topic, messages, compression=codec, linger_ms=50, batch_bytes=500)
    consumer = client_factory.consumer(client)
    consumer.assign(topic, {0: EARLIEST})
    for asked_ms, offset in [
        (0, 0),
        (THEN_MS, 0),
        (THEN_MS + 1, 1),
        (THEN_MS + 500, 50),
        (THEN_MS + 989, 99),
        (THEN_MS + 990, 99),
    ]:
        assert consumer.offset_for_time(0, asked_ms) == offset
    # librdkafka returns the log end where the broker returns no offset.
    beyond = consumer.offset_for_time(0, THEN_MS + 991)
    assert beyond is None or (client.name == "confluent" and beyond == 100)


def test_watermarks_are_the_first_offset_and_the_end(
    client: ForeignClient, topic: str, client_factory: ClientFactory
) -> None:
    consumer = client_factory.consumer(client)
    consumer.assign(topic, {0: EARLIEST})
    assert consumer.watermarks(0) == (0, 0)
    client_factory.produce(client, topic, numbered_messages(10))
    assert consumer.watermarks(0) == (0, 10)
    client_factory.admin(client).delete_records(topic, 0, 4)
    assert consumer.watermarks(0) == (4, 10)


def test_seek_starts_reading_at_any_offset(
    client: ForeignClient, topic: str, client_factory: ClientFactory
) -> None:
    client_factory.produce(client, topic, numbered_messages(1000), batch_bytes=400)
    consumer = client_factory.consumer(client)
    consumer.assign(topic, {0: EARLIEST})
    read_exactly(consumer, 10)
    for offset in (500, 0, 999, 17, 18):
        consumer.seek(0, offset)
        received = read_exactly(consumer, 1)
        assert [one.offset for one in received] == list(range(offset, offset + len(received)))
        assert received[0].value == b"%d" % offset
        assert consumer.position(0) == received[-1].offset + 1


def test_reading_from_the_end_returns_only_later_records(
    client: ForeignClient, topic: str, client_factory: ClientFactory
) -> None:
    client_factory.produce(client, topic, numbered_messages(10))
    consumer = client_factory.consumer(client)
    consumer.assign(topic, {0: LATEST})
    # A client may query the log end at any time; librdkafka does it after half a second.
    wait_until(
        lambda: reads_only_later_messages(client_factory, client, consumer, topic), "message after the end"
    )


@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_a_deleted_offset_is_reset_by_policy(
    client: ForeignClient, reset: str, topic: str, client_factory: ClientFactory
) -> None:
    client_factory.produce(client, topic, numbered_messages(10))
    client_factory.admin(client).delete_records(topic, 0, 4)
    consumer = client_factory.consumer(client, offset_reset=reset)
    consumer.assign(topic, {0: 1})
    if reset == "latest":
        wait_until(
            lambda: reads_only_later_messages(client_factory, client, consumer, topic),
            "message after the end",
        )
    else:
        assert read_exactly(consumer, 1)[0].offset == 4


def reads_only_later_messages(
    client_factory: ClientFactory, client: ForeignClient, consumer: ForeignConsumer, topic: str
) -> bool:
    """Return whether a message that is written now is read, and no older one."""
    client_factory.produce(client, topic, [Message(b"later")])
    received = consumer.poll(0.1)
    assert {one.value for one in received} <= {b"later"}
    return bool(received)


def test_a_paused_partition_waits_while_another_continues(
    client: ForeignClient, new_topic: Callable[..., str], client_factory: ClientFactory
) -> None:
    topic = new_topic(2)
    consumer = client_factory.consumer(client)
    consumer.assign(topic, {0: EARLIEST, 1: EARLIEST})
    consumer.poll(0.1)
    consumer.pause(0)
    client_factory.produce(client, topic, numbered_messages(50, 0) + numbered_messages(50, 1))
    received = read_exactly(consumer, 50)
    assert {one.partition for one in received + consumer.poll(0.2)} == {1}
    consumer.resume(0)
    assert {one.partition for one in read_exactly(consumer, 50)} == {0}


@pytest.mark.parametrize("admin", ["confluent", "kafka_python"])
def test_the_offset_of_the_latest_timestamp_is_found(
    admin: str, topic: str, client_factory: ClientFactory
) -> None:
    times = [THEN_MS + 5, THEN_MS + 90, THEN_MS + 90, THEN_MS + 20]
    client_factory.produce(CLIENTS[admin], topic, [Message(b"v", timestamp_ms=at) for at in times])
    group_admin = CLIENTS[admin].admin(client_factory.servers)
    assert group_admin.max_timestamp_offset(topic, 0) == 1  # type: ignore[attr-defined]
    group_admin.close()
