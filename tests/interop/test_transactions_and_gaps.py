"""Logs that simple producers do not write: transactions with markers, and results of compaction.

The records are written without the protocol, like those of a transaction coordinator or a cleaner, and
read by third-party clients.
"""

from __future__ import annotations

import random
import time
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from tests.support.foreign_clients import CLIENTS, ForeignClient, Message
from tests.support.foreign_clients.client_factory import ClientFactory
from tests.support.foreign_clients.interface import EARLIEST, read_exactly
from tests.support.foreign_clients.partition_writer import PartitionWriter
from tidelog.protocol.batch import empty_batch, read_header, write_header
from tidelog.protocol.compression import Compression
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop

COMMITTED: dict[str, Any] = {"isolation": "read_committed"}
FIRST, SECOND = 1000, 1001


@pytest.fixture
def partition(cluster: EmbeddedCluster, topic: str) -> PartitionWriter:
    """Return the only partition of the topic."""
    return PartitionWriter(cluster, topic)


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_both_isolation_levels_are_equal_without_transactions(
    client: ForeignClient, isolation: str, topic: str, client_factory: ClientFactory
) -> None:
    messages = [Message(b"%d" % n) for n in range(100)]
    client_factory.produce(client, topic, messages, idempotent=True)
    received = client_factory.consume(client, topic, 100, isolation=isolation)
    assert [one.value for one in received] == [message.value for message in messages]


def write_transactions(partition: PartitionWriter) -> None:
    """Write aborted, committed and open transactions of two producers, with plain records between them."""
    partition.records(b"plain 0")
    partition.records(b"aborted 1", b"aborted 2", producer_id=FIRST)
    partition.records(b"committed 3", producer_id=SECOND)
    partition.end_transaction(FIRST, committed=False)
    partition.records(b"plain 5")
    partition.end_transaction(SECOND, committed=True)
    partition.records(b"committed 7", producer_id=FIRST)
    partition.end_transaction(FIRST, committed=True)
    partition.records(b"open 9", producer_id=SECOND)
    partition.records(b"plain 10")


def test_read_committed_omits_aborted_records_and_waits_for_open_transactions(
    client: ForeignClient, topic: str, client_factory: ClientFactory, partition: PartitionWriter
) -> None:
    write_transactions(partition)
    consumer = client_factory.consumer(client, **COMMITTED)
    consumer.assign(topic, {0: EARLIEST})
    received = read_exactly(consumer, 4)
    assert [(one.offset, one.value) for one in received] == [
        (0, b"plain 0"),
        (3, b"committed 3"),
        (5, b"plain 5"),
        (7, b"committed 7"),
    ]
    assert consumer.poll(0.3) == []
    partition.end_transaction(SECOND, committed=True)
    received = read_exactly(consumer, 2)
    assert [(one.offset, one.value) for one in received] == [(9, b"open 9"), (10, b"plain 10")]


def test_read_uncommitted_returns_all_records_except_markers(
    client: ForeignClient, topic: str, client_factory: ClientFactory, partition: PartitionWriter
) -> None:
    write_transactions(partition)
    received = client_factory.consume(client, topic, 8)
    assert [one.offset for one in received] == [0, 1, 2, 3, 5, 7, 9, 10]


def test_the_end_for_read_committed_is_the_last_stable_offset(
    client: ForeignClient, topic: str, client_factory: ClientFactory, partition: PartitionWriter
) -> None:
    write_transactions(partition)
    stable, whole = client_factory.consumer(client, **COMMITTED), client_factory.consumer(client)
    for consumer in (stable, whole):
        consumer.assign(topic, {0: EARLIEST})
    assert stable.watermarks(0) == (0, 9)
    assert whole.watermarks(0) == (0, 11)


def test_reading_may_start_within_an_aborted_transaction(
    client: ForeignClient, topic: str, client_factory: ClientFactory, partition: PartitionWriter
) -> None:
    for number in range(5):
        partition.records(b"aborted %d" % number, producer_id=FIRST)
    partition.records(b"plain 5")
    partition.end_transaction(FIRST, committed=False)
    partition.records(b"plain 7")
    received = client_factory.consume(client, topic, 2, {0: 3}, **COMMITTED)
    assert [one.offset for one in received] == [5, 7]


@pytest.mark.parametrize("codec", list(Compression), ids=lambda codec: codec.name.lower())
def test_many_interleaved_transactions_are_read_as_by_a_model(
    client: ForeignClient,
    codec: Compression,
    topic: str,
    client_factory: ClientFactory,
    partition: PartitionWriter,
) -> None:
    chance = random.Random(codec)
    open_records: dict[int, list[int]] = {}
    visible: list[int] = []
    for _ in range(300):
        producer_id = chance.choice((FIRST, SECOND, 1002, 1003, None))
        if producer_id is not None and producer_id in open_records and chance.random() < 0.4:
            committed = chance.random() < 0.5
            partition.end_transaction(producer_id, committed=committed)
            ended = open_records.pop(producer_id)
            visible += ended if committed else []
            continue
        count = chance.randint(1, 4)
        values = [chance.randbytes(50) for _ in range(count)]
        first = partition.records(*values, producer_id=producer_id, compression=codec)
        into = visible if producer_id is None else open_records.setdefault(producer_id, [])
        into += range(first, first + count)
    for producer_id in list(open_records):
        partition.end_transaction(producer_id, committed=True)
        visible += open_records.pop(producer_id)
    last = partition.records(b"last")
    received = client_factory.consume(client, topic, len(visible) + 1, partition_bytes_max=2000, **COMMITTED)
    assert [one.offset for one in received] == [*sorted(visible), last]


def compacted_batch(kept: list[int], last: int, codec: Compression = Compression.NONE) -> bytearray:
    """Return a batch like those of a cleaner, with gaps in the offset deltas, built by aiokafka."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=int(codec),
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=10_000,
    )
    now_ms = int(time.time() * 1000)
    for offset in kept:
        builder.append(offset, now_ms, b"k", b"kept %d" % offset, [])
    batch = bytearray(builder.build())
    write_header(batch, 0, read_header(batch)._replace(last_offset_delta=last))
    return batch


@pytest.mark.parametrize("codec", list(Compression), ids=lambda codec: codec.name.lower())
def test_gaps_and_empty_batches_of_a_compacted_log_are_skipped(
    client: ForeignClient,
    codec: Compression,
    topic: str,
    client_factory: ClientFactory,
    partition: PartitionWriter,
) -> None:
    whole = compacted_batch([0, 1, 2], 2, codec)
    emptied = empty_batch(read_header(compacted_batch([0], 9)))
    partition.as_follower(
        [
            (0, whole),
            (10, compacted_batch([0, 4, 5], 9, codec)),
            (20, emptied),
            (40, compacted_batch([3], 3, codec)),
            (44, emptied),
        ]
    )
    consumer = client_factory.consumer(client)
    consumer.assign(topic, {0: EARLIEST})
    received = read_exactly(consumer, 7)
    assert [one.offset for one in received] == [0, 1, 2, 10, 14, 15, 43]
    client_factory.produce(client, topic, [Message(b"after the last empty batch")])
    (after,) = read_exactly(consumer, 1)
    assert after.offset == 54


@pytest.mark.parametrize("start", [3, 11, 16, 20, 30, 41, 44, 50])
def test_reading_may_start_in_a_gap(
    client: ForeignClient, start: int, topic: str, client_factory: ClientFactory, partition: PartitionWriter
) -> None:
    emptied = empty_batch(read_header(compacted_batch([0], 9)))
    partition.as_follower(
        [
            (0, compacted_batch([0, 1, 2], 2)),
            (10, compacted_batch([0, 4, 5], 9)),
            (20, emptied),
            (40, compacted_batch([3], 3)),
            (44, emptied),
            (54, compacted_batch([0], 0)),
        ]
    )
    expected = [offset for offset in (0, 1, 2, 10, 14, 15, 43, 54) if offset >= start]
    received = client_factory.consume(client, topic, len(expected), {0: start})
    assert [one.offset for one in received] == expected


def test_every_client_reads_past_a_log_that_ends_in_markers(
    topic: str, client_factory: ClientFactory, partition: PartitionWriter
) -> None:
    partition.records(b"aborted", producer_id=FIRST)
    partition.end_transaction(FIRST, committed=False)
    readers = {name: client_factory.consumer(one, **COMMITTED) for name, one in CLIENTS.items()}
    for reader in readers.values():
        reader.assign(topic, {0: EARLIEST})
        assert reader.poll(0.3) == []
    partition.records(b"plain")
    for reader in readers.values():
        (received,) = read_exactly(reader, 1)
        assert (received.offset, received.value) == (2, b"plain")
