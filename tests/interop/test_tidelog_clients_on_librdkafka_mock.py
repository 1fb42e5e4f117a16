"""Our clients with brokers of other authors: librdkafka's mock cluster.

Records of our producer are read by confluent-kafka and aiokafka, and the reverse.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, cast
from uuid import uuid4

import aiokafka
import confluent_kafka
import pytest

from tests.support.network.librdkafka_mock import limit_versions, mock_cluster
from tests.support.waiting import TIMEOUT_S
from tidelog.clients.consumer.consumer import Consumer
from tidelog.clients.consumer.consumer_types import ConsumerRecord
from tidelog.clients.consumer.partition_reader import PartitionReader
from tidelog.clients.groups.group_offsets import ConsumerGroupMetadata, OffsetAndMetadata
from tidelog.clients.producer.producer import Producer
from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition

pytestmark = pytest.mark.interop

Plain = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
RECORDS: list[Plain] = [
    (b"key", b"value", ()),
    (None, b"no key", ()),
    (b"no value", None, ()),
    (None, None, ()),
    (b"", b"", ()),
    (
        b"k",
        b"with headers",
        (("a", b"1"), ("a", b"again"), ("null", None), ("empty", b""), ("naïve", b"\xff")),
    ),
    (b"k", b"compressible " * 500, ()),
    (b"k", bytes(range(256)) * 8, ()),
]


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with mock_cluster() as bootstrap_servers:
        yield bootstrap_servers


@pytest.fixture(autouse=True)
def _sound_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_versions(monkeypatch)


@pytest.fixture
def topic() -> str:
    return f"topic-{uuid4().hex[:8]}"


def plain(records: Sequence[ConsumerRecord]) -> list[Plain]:
    return [(record.key, record.value, record.headers) for record in records]


async def produce(servers: str, topic: str, records: Sequence[Plain], **options: Any) -> list[int]:
    async with Producer(servers, **options) as producer:
        deliveries = [
            await producer.send(topic, value, key=key, headers=headers, partition=0)
            for key, value, headers in records
        ]
        await producer.flush()
        return [(await delivery).offset for delivery in deliveries]


async def consume(servers: str, topic: str, count: int, **options: Any) -> list[ConsumerRecord]:
    result: list[ConsumerRecord] = []
    async with Consumer(servers, auto_offset_reset="earliest", **options) as consumer:
        consumer.assign([TopicPartition(topic, number) for number in await consumer.partitions_for(topic)])
        async with asyncio.timeout(TIMEOUT_S):
            while len(result) < count:
                for records in (await consumer.poll(1_000)).values():
                    result += records
    return result


@pytest.mark.parametrize("codec", CODECS)
async def test_our_consumer_reads_what_our_producer_wrote(servers: str, topic: str, codec: str) -> None:
    offsets = await produce(servers, topic, RECORDS, compression_type=codec)
    assert offsets == list(range(len(RECORDS)))
    records = await consume(servers, topic, len(RECORDS))
    assert plain(records) == RECORDS
    assert [record.offset for record in records] == offsets


@pytest.mark.parametrize("codec", CODECS)
async def test_confluents_consumer_reads_what_our_producer_wrote(
    servers: str, topic: str, codec: str
) -> None:
    await produce(servers, topic, RECORDS, compression_type=codec)
    assert await asyncio.to_thread(read_with_confluent, servers, topic, len(RECORDS)) == RECORDS


def read_with_confluent(servers: str, topic: str, count: int) -> list[Plain]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "none", "check.crcs": True, "enable.auto.commit": False}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    messages: list[Plain] = []
    while len(messages) < count:
        batch = consumer.consume(count - len(messages), timeout=10)
        assert batch, f"only {len(messages)} of {count} messages were received"
        for message in batch:
            assert message.error() is None, message.error()
            messages.append(
                (
                    message.key(),
                    message.value(),
                    tuple(cast(list[tuple[str, bytes | None]], message.headers()) or ()),
                )
            )
    consumer.close()
    return messages


@pytest.mark.parametrize("codec", CODECS)
async def test_aiokafkas_consumer_reads_what_our_producer_wrote(servers: str, topic: str, codec: str) -> None:
    records = [entry for entry in RECORDS if all(value is not None for _, value in entry[2])]
    await produce(servers, topic, records, compression_type=codec)
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
    await consumer.start()
    try:
        consumer.assign([aiokafka.TopicPartition(topic, 0)])
        async with asyncio.timeout(TIMEOUT_S):
            messages = [await consumer.getone() for _ in records]
    finally:
        await consumer.stop()
    assert [(message.key, message.value, tuple(message.headers)) for message in messages] == records


@pytest.mark.parametrize("codec", CODECS)
async def test_our_consumer_reads_what_confluents_producer_wrote(
    servers: str, topic: str, codec: str
) -> None:
    def write() -> None:
        producer = confluent_kafka.Producer({"bootstrap.servers": servers, "compression.type": codec})
        for key, value, headers in RECORDS:
            producer.produce(topic, value, key, 0, headers=list(headers))
        assert producer.flush(10) == 0

    await asyncio.to_thread(write)
    assert plain(await consume(servers, topic, len(RECORDS))) == RECORDS


@pytest.mark.parametrize("codec", CODECS)
async def test_our_consumer_reads_what_aiokafkas_producer_wrote(servers: str, topic: str, codec: str) -> None:
    records = [
        entry
        for entry in RECORDS
        if entry[:2] != (None, None) and all(value is not None for _, value in entry[2])
    ]
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=servers, compression_type=None if codec == "none" else codec
    )
    await producer.start()
    try:
        for key, value, headers in records:
            await producer.send(topic, value, key, 0, headers=list(headers))
        await producer.flush()
    finally:
        await producer.stop()
    assert plain(await consume(servers, topic, len(records))) == records


@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_every_acks_setting_writes_all_records(servers: str, topic: str, acks: int | str) -> None:
    records: list[Plain] = [(None, str(number).encode(), ()) for number in range(500)]
    offsets = await produce(servers, topic, records, acks=acks, enable_idempotence=acks == "all", linger_ms=0)
    assert offsets == ([-1] * 500 if acks == 0 else list(range(500)))
    assert plain(await consume(servers, topic, 500)) == records


async def test_keyed_records_are_placed_as_by_librdkafkas_murmur2(servers: str, topic: str) -> None:
    keys = [f"key-{number}".encode() for number in range(200)]

    def write() -> dict[bytes, int]:
        producer = confluent_kafka.Producer({"bootstrap.servers": servers, "partitioner": "murmur2_random"})
        places: dict[bytes, int] = {}
        for key in keys:
            producer.produce(
                topic,
                b"",
                key,
                on_delivery=lambda _, message: places.update({message.key(): message.partition()}),
            )
        assert producer.flush(10) == 0
        return places

    theirs = await asyncio.to_thread(write)
    async with Producer(servers) as producer:
        deliveries = {key: await producer.send(topic, b"", key=key) for key in keys}
        ours = {key: (await delivery).partition for key, delivery in deliveries.items()}
    assert ours == theirs


async def test_order_is_kept_with_many_small_batches_in_flight(servers: str, topic: str) -> None:
    records: list[Plain] = [(None, str(number).encode(), ()) for number in range(3_000)]
    await produce(servers, topic, records, batch_size=200, linger_ms=0)
    assert plain(await consume(servers, topic, len(records), max_partition_fetch_bytes=2_000)) == records


async def test_a_group_member_reads_all_records_and_its_successor_continues(servers: str, topic: str) -> None:
    # Groups of several members are tested with our own broker: the mock's SyncGroup response is wrong
    # when the leader is the first to sync.
    async with Producer(servers) as producer:
        for number in range(40):
            await producer.send(topic, str(number).encode(), partition=number % 4)
    options: dict[str, Any] = {
        "group_id": f"group-{uuid4().hex[:8]}",
        "auto_offset_reset": "earliest",
        "session_timeout_ms": 3_000,  # the time in which the mock waits for other members
        "heartbeat_interval_ms": 500,
    }
    received: list[bytes | None] = []
    async with Consumer(servers, **options) as first:
        first.subscribe([topic])
        async with asyncio.timeout(TIMEOUT_S):
            while len(received) < 40:
                for records in (await first.poll(1_000)).values():
                    received += [record.value for record in records]
        assert set(first.assignment()) == {TopicPartition(topic, number) for number in range(4)}
    assert sorted(int(value or b"-1") for value in received) == list(range(40))
    async with Producer(servers) as producer:
        await producer.send(topic, b"for the successor", partition=2)
    async with Consumer(servers, **options) as second:
        second.subscribe(pattern=topic[:-1] + ".")
        record = await second.getone(15_000)
        assert record is not None
        assert record.value == b"for the successor"


async def test_the_next_consumer_continues_at_committed_offsets(servers: str, topic: str) -> None:
    await produce(servers, topic, [(None, str(number).encode(), ()) for number in range(20)])
    partition = TopicPartition(topic, 0)
    group = f"group-{uuid4().hex[:8]}"
    options: dict[str, Any] = {
        "group_id": group,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }
    async with Consumer(servers, **options) as consumer:
        consumer.assign([partition])
        for _ in range(7):
            assert await consumer.getone(10_000) is not None
        assert await consumer.position(partition) == 7
        await consumer.commit()
        assert (await consumer.committed([partition]))[partition] == OffsetAndMetadata(7, "", 0)
    async with Consumer(servers, **options) as consumer:
        consumer.assign([partition])
        record = await consumer.getone(10_000)
        assert record is not None
        assert record.offset == 7


async def test_seek_pause_and_offset_queries(servers: str, topic: str) -> None:
    await produce(servers, topic, [(None, str(number).encode(), ()) for number in range(10)])
    partition = TopicPartition(topic, 0)
    async with Consumer(servers, auto_offset_reset="none") as consumer:
        consumer.assign([partition])
        consumer.seek(partition, 4)
        record = await consumer.getone(10_000)
        assert record is not None
        assert record.offset == 4
        consumer.seek_to_end(partition)
        assert await consumer.position(partition) == 10
        consumer.seek_to_beginning()
        assert await consumer.position(partition) == 0
        consumer.pause(partition)
        assert await consumer.poll(50) == {}
        assert consumer.paused() == (partition,)
        consumer.resume(partition)
        assert len((await consumer.poll(10_000))[partition]) > 0
        assert await consumer.beginning_offsets([partition]) == {partition: 0}
        assert await consumer.end_offsets([partition]) == {partition: 10}


async def test_without_a_reset_policy_a_missing_position_is_an_error(servers: str, topic: str) -> None:
    await produce(servers, topic, RECORDS)
    async with Consumer(servers, auto_offset_reset="none") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        with pytest.raises(KafkaError) as caught:
            await consumer.poll(5_000)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


async def test_an_offset_out_of_range_resets_to_the_policy(servers: str, topic: str) -> None:
    await produce(servers, topic, RECORDS)
    partition = TopicPartition(topic, 0)
    async with Consumer(servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        consumer.seek(partition, 1_000)
        record = await consumer.getone(10_000)
        assert record is not None
        assert record.offset == 0


async def test_the_partition_reader_stops_at_the_end_offset(servers: str, topic: str) -> None:
    await produce(servers, topic, [(None, str(number).encode(), ()) for number in range(300)], batch_size=500)
    async with PartitionReader(servers, (topic, 0), start_offset=10, end_offset=290) as reader:
        assert [record.offset async for record in reader.records()] == list(range(10, 290))
    async with PartitionReader(servers, (topic, 0), max_partition_fetch_bytes=1_000) as reader:
        assert await reader.range() == (0, 300)
        ranges = [fetched.records async for fetched in reader.fetched_ranges()]
        headers = [header for records in ranges for _, header in iterate_headers(records)]
    assert headers[0].base_offset == 0
    assert headers[-1].next_offset == 300
    assert all(before.next_offset == after.base_offset for before, after in pairwise(headers))


async def test_a_record_over_the_limit_is_refused_before_it_is_sent(servers: str, topic: str) -> None:
    async with Producer(servers, max_request_size=1_000) as producer:
        with pytest.raises(KafkaError) as caught:
            await producer.send(topic, b"x" * 1_000)
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
        assert "max_request_size=1000" in str(caught.value)


async def test_an_unreachable_cluster_is_an_error_that_names_the_server() -> None:
    producer = Producer("127.0.0.1:1", max_block_ms=300)
    with pytest.raises(KafkaError, match=r"127\.0\.0\.1:1"):
        await producer.start()
    with suppress(KafkaError):
        await producer.close()


async def test_transactions_with_librdkafkas_coordinator(servers: str, topic: str) -> None:
    group = ConsumerGroupMetadata(f"group-{topic}")
    async with Producer(servers, transactional_id=topic, linger_ms=1_000) as producer:
        await producer.init_transactions()
        for number in range(3):
            async with producer.transaction():
                await producer.send(topic, b"%d" % number, partition=0)
                await producer.send_offsets_to_transaction({TopicPartition(topic, 0): number}, group)
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction():
                dropped = await producer.send(topic, b"dropped", partition=0)
                raise ZeroDivisionError
        with pytest.raises(KafkaError, match="aborted"):
            await dropped
    # The checksums of the mock's markers are invalid.
    records = await consume(servers, topic, 3, isolation_level="read_committed", check_crcs=False)
    assert [(record.offset, record.value) for record in records] == [(0, b"0"), (2, b"1"), (4, b"2")]
