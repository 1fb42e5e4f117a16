"""Records that each client writes and each client reads: all bytes, codecs and limits.

Each client must receive exactly the records that another client sent.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.support.foreign_clients import CLIENTS, ForeignClient, ForeignError, Message
from tests.support.foreign_clients.client_factory import ClientFactory
from tests.support.foreign_clients.interface import EARLIEST
from tidelog.protocol.batch import BATCH_OVERHEAD, LOG_OVERHEAD
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.errors import ErrorCode

pytestmark = pytest.mark.interop

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
MAX_MESSAGE_BYTES = 1_048_588

SHAPES = [
    Message(b"value", b"key"),
    Message(b"no key", None),
    Message(None, b"no value"),
    Message(b"", b""),
    Message(b"x", None),
    Message(b"headers", b"k", (("a", b"1"), ("a", b"again"), ("empty", b""), ("na\u00efve", b"\xff\x00"))),
    Message(b"many headers", b"k", tuple((f"header-{n}", bytes([n])) for n in range(200))),
    Message(b"compressible " * 700, b"long"),
    Message(random.Random(7).randbytes(9000), b"random"),
    Message(b"v" * 128, b"k" * 64),
]


@pytest.fixture(params=list(CLIENTS))
def reader(request: pytest.FixtureRequest) -> ForeignClient:
    """Return each third-party client as the reader, one after the other."""
    return CLIENTS[request.param]


@pytest.mark.parametrize("codec", CODECS)
def test_every_client_reads_the_records_of_each_client(
    client: ForeignClient, codec: str, topic: str, client_factory: ClientFactory
) -> None:
    receipts = client_factory.produce(client, topic, SHAPES, compression=codec, linger_ms=50)
    assert [receipt.offset for receipt in receipts] == list(range(len(SHAPES)))
    for reader in CLIENTS.values():
        received = client_factory.consume(reader, topic, len(SHAPES))
        assert [one.content for one in received] == [(m.key, m.value, m.headers) for m in SHAPES]
        assert [one.offset for one in received] == list(range(len(SHAPES)))


def test_a_message_may_have_neither_key_nor_value(
    reader: ForeignClient, topic: str, client_factory: ClientFactory
) -> None:
    # Only librdkafka writes such a message.
    client_factory.produce(CLIENTS["confluent"], topic, [Message(None, None)])
    (received,) = client_factory.consume(reader, topic, 1)
    assert received.content == (None, None, ())


@pytest.mark.parametrize("writer", ["confluent", "aiokafka"])
def test_a_header_may_be_null(
    writer: str, reader: ForeignClient, topic: str, client_factory: ClientFactory
) -> None:
    # kafka-python refuses to write such a header.
    headers = (("null", None), ("", b""), ("null", b"not"))
    client_factory.produce(CLIENTS[writer], topic, [Message(b"value", b"k", headers)])
    (received,) = client_factory.consume(reader, topic, 1)
    assert received.content == (b"k", b"value", headers)


def overhead_of_one_record() -> int:
    """Return the size of a batch without the value of its only record, if that has a 3-byte varint."""
    builder = BatchBuilder()
    builder.append(0, None, b"x" * 1_000_000)
    return len(builder.build()) - 1_000_000


def test_max_message_bytes_is_inclusive(
    client: ForeignClient, topic: str, client_factory: ClientFactory
) -> None:
    fitting = b"x" * (MAX_MESSAGE_BYTES - overhead_of_one_record())
    (receipt,) = client_factory.produce(client, topic, [Message(fitting)], batch_bytes=2_000_000)
    assert receipt.offset == 0
    producer = client_factory.producer(client, batch_bytes=2_000_000)
    producer.send(topic, [Message(fitting + b"x")])
    with pytest.raises(ForeignError) as refused:
        producer.flush()
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
    for reader in CLIENTS.values():
        (received,) = client_factory.consume(reader, topic, 1)
        assert received.value == fitting


def test_the_limit_of_the_topic_overrides_the_brokers(
    client: ForeignClient, new_topic: Callable[..., str], client_factory: ClientFactory
) -> None:
    small, large = (
        new_topic(config={"max.message.bytes": "1000"}),
        new_topic(config={"max.message.bytes": "3000000"}),
    )
    producer = client_factory.producer(client)
    producer.send(small, [Message(b"y" * 1001)])
    with pytest.raises(ForeignError) as refused:
        producer.flush()
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
    big = random.Random(1).randbytes(2_500_000)
    client_factory.produce(client, large, [Message(big)])
    (received,) = client_factory.consume(client, large, 1, partition_bytes_max=100_000)
    assert received.value == big


@pytest.mark.parametrize("size_bytes", [0, 1, 2, 127, 128, 16_383, 16_384, 1_000_000])
def test_values_of_every_size_round_trip(
    client: ForeignClient, size_bytes: int, topic: str, client_factory: ClientFactory
) -> None:
    value = random.Random(size_bytes).randbytes(size_bytes)
    client_factory.produce(client, topic, [Message(value, b"k")])
    (received,) = client_factory.consume(client, topic, 1)
    assert received.value == value


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_messages_are_written_with_every_acks_setting(
    client: ForeignClient, acks: int, topic: str, client_factory: ClientFactory
) -> None:
    messages = [Message(b"%d" % n) for n in range(500)]
    receipts = client_factory.produce(client, topic, messages, acks=acks)
    if acks:
        assert [receipt.offset for receipt in receipts] == list(range(500))
    received = client_factory.consume(client, topic, 500)
    assert [one.value for one in received] == [message.value for message in messages]


@pytest.mark.parametrize("codec", CODECS)
def test_the_broker_recompresses_to_the_compression_type_of_the_topic(
    client: ForeignClient, codec: str, new_topic: Callable[..., str], client_factory: ClientFactory
) -> None:
    topic = new_topic(config={"compression.type": codec if codec != "none" else "uncompressed"})
    messages = [Message(b"some text %d " % n * 20, b"k") for n in range(300)]
    client_factory.produce(client, topic, messages, compression="gzip", linger_ms=50)
    for reader in CLIENTS.values():
        received = client_factory.consume(reader, topic, 300)
        assert [one.value for one in received] == [message.value for message in messages]


def test_a_large_backlog_is_read_completely_in_order(
    client: ForeignClient, reader: ForeignClient, topic: str, client_factory: ClientFactory
) -> None:
    messages = [Message(b"value %06d" % n, b"%d" % (n % 7)) for n in range(20_000)]
    client_factory.produce(client, topic, messages, compression="lz4", linger_ms=20, batch_bytes=65_536)
    received = client_factory.consume(reader, topic, len(messages))
    assert [(one.offset, one.value) for one in received] == [
        (offset, message.value) for offset, message in enumerate(messages)
    ]


def test_messages_of_each_partition_keep_their_order(
    client: ForeignClient, new_topic: Callable[..., str], client_factory: ClientFactory
) -> None:
    partitions = 60
    topic = new_topic(partitions)
    messages = [Message(b"%d" % n, partition=n % partitions) for n in range(10 * partitions)]
    client_factory.produce(client, topic, messages)
    received = client_factory.consume(
        client, topic, len(messages), dict.fromkeys(range(partitions), EARLIEST)
    )
    for partition in range(partitions):
        values = [one.value for one in received if one.partition == partition]
        assert values == [b"%d" % n for n in range(partition, len(messages), partitions)]


def test_the_batch_length_equals_the_header_field() -> None:
    assert overhead_of_one_record() == BATCH_OVERHEAD + 11
    assert BATCH_OVERHEAD > LOG_OVERHEAD
