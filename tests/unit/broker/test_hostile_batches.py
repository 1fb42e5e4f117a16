"""Inconsistent batches and decompression bombs, produced over the wire to topics that must validate records.

Each gets the error code of Kafka, the memory of the broker stays bounded, and a second client gets responses
all the time: no batch may block the event loop for long.
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.batches.compression_bombs import (
    compression_bomb,
    snappy_block_that_declares,
    zstd_frame_that_declares,
)
from tests.support.batches.forged_batches import (
    batch_of_least_records,
    batch_with_payload,
    now_ms,
    valid_batch,
)
from tests.support.network.raw_client import RawClient
from tests.support.waiting import TIMEOUT_S
from tidelog.protocol.batch import read_header, write_header
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.compression import Compression, compress
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.testing.embedded import EmbeddedCluster

TOPICS = {
    "plain": {},
    "gzip": {"compression.type": "gzip"},
    "lz4": {"compression.type": "lz4", "message.timestamp.type": "LogAppendTime"},
    "uncompressed": {"compression.type": "uncompressed"},
    "compact": {"cleanup.policy": "compact"},
    "log-append-time": {"message.timestamp.type": "LogAppendTime"},
    "limited-age": {"message.timestamp.before.max.ms": "3600000"},
}
VALIDATING = ("gzip", "lz4", "uncompressed", "compact", "limited-age")
"""Topics whose batches must be decompressed and validated."""

BOMB_MEBIBYTES = 256
GROWTH_BYTES_MAX = 96 * 1024 * 1024
SILENCE_S_MAX = 10.0
"""CPU time, which other processes do not affect; the goal is one second, which benchmarks measure."""
CODECS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]

Change = Callable[[bytearray], None]


@pytest.fixture(scope="module")
def client() -> Iterator[RawClient]:
    with EmbeddedCluster() as cluster:
        host, port = cluster.bootstrap_servers.split(":")
        with RawClient(host, int(port)) as connected:
            topics = tuple(
                CreatableTopic(
                    name=name,
                    num_partitions=1,
                    replication_factor=1,
                    configs=tuple(
                        CreatableTopicConfig(name=key, value=value) for key, value in config.items()
                    ),
                )
                for name, config in TOPICS.items()
            )
            created = connected.send_request(
                CreateTopicsRequest(topics=topics, timeout_ms=9000), 7, CreateTopicsResponse
            )
            assert not any(topic.error_code for topic in created.topics), created
            yield connected


class Watch:
    """A second client that sends requests all the time; `silence_s` is the CPU time of the longest wait."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._client = RawClient(*address)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.silence_s = 0.0
        self._memory_before = 0
        self.growth_bytes = 0

    def __enter__(self) -> Watch:
        self._memory_before = resident_bytes()
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join(TIMEOUT_S)
        self._client.close()
        assert self.silence_s < SILENCE_S_MAX
        assert self.growth_bytes < GROWTH_BYTES_MAX

    def _run(self) -> None:
        while not self._stop.wait(0.01):
            request_s = time.process_time()
            self._client.send_request(ApiVersionsRequest(), 0, ApiVersionsResponse)
            self.silence_s = max(self.silence_s, time.process_time() - request_s)
            self.growth_bytes = max(self.growth_bytes, resident_bytes() - self._memory_before)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def with_fields(**fields: int) -> Change:
    """Return a function that sets header fields of a batch and its checksum."""
    return lambda records: write_header(records, 0, read_header(records)._replace(**fields))


def produce(client: RawClient, topic: str, records: bytes | bytearray | None, version: int = 9) -> ErrorCode:
    data = (PartitionProduceData(index=0, records=None if records is None else bytes(records)),)
    request = ProduceRequest(
        acks=-1, timeout_ms=9000, topic_data=(TopicProduceData(name=topic, partition_data=data),)
    )
    response = client.send_request(request, version, ProduceResponse)
    return ErrorCode(response.responses[0].partition_responses[0].error_code)


def offset_at(client: RawClient, topic: str, timestamp: int) -> tuple[ErrorCode, int]:
    partitions = (ListOffsetsPartition(partition_index=0, timestamp=timestamp),)
    request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=topic, partitions=partitions),))
    response = client.send_request(request, 7, ListOffsetsResponse).topics[0].partitions[0]
    return ErrorCode(response.error_code), response.offset


def with_bytes(at: int, data: bytes) -> Change:
    """Return a function that replaces bytes of a batch; a checksum that covers them is invalid."""

    def change(records: bytearray) -> None:
        records[at : at + len(data)] = data

    return change


INCONSISTENT: list[tuple[str, ErrorCode, Change]] = [
    ("a count of one more", ErrorCode.INVALID_RECORD, with_fields(record_count=4)),
    ("a count of one less", ErrorCode.INVALID_RECORD, with_fields(record_count=2)),
    ("no records", ErrorCode.INVALID_RECORD, with_fields(record_count=0)),
    ("a negative count", ErrorCode.INVALID_RECORD, with_fields(record_count=-1)),
    (
        "the largest count",
        ErrorCode.INVALID_RECORD,
        with_fields(record_count=2**31 - 1, last_offset_delta=2**31 - 2),
    ),
    ("a last offset ahead", ErrorCode.INVALID_RECORD, with_fields(last_offset_delta=9)),
    ("a negative last offset", ErrorCode.INVALID_RECORD, with_fields(last_offset_delta=-1)),
    ("a base offset", ErrorCode.INVALID_RECORD, with_fields(base_offset=5)),
    ("a control batch", ErrorCode.INVALID_RECORD, with_fields(attributes=0x20)),
    ("an unknown codec", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, with_fields(attributes=5)),
    ("a producer without a sequence", ErrorCode.INVALID_RECORD, with_fields(producer_id=7, producer_epoch=0)),
    ("a checksum that is wrong", ErrorCode.CORRUPT_MESSAGE, with_bytes(17, b"\0\0\0\0")),
    ("a bit flipped in a record", ErrorCode.CORRUPT_MESSAGE, with_bytes(70, b"\xff")),
    ("magic 1", ErrorCode.INVALID_RECORD, with_bytes(16, b"\x01")),
    ("magic 9", ErrorCode.CORRUPT_MESSAGE, with_bytes(16, b"\x09")),
    ("a negative length", ErrorCode.CORRUPT_MESSAGE, with_bytes(8, b"\xff\xff\xff\xff")),
    ("the largest length", ErrorCode.INVALID_RECORD, with_bytes(8, b"\x7f\xff\xff\xff")),
    ("a length of 0", ErrorCode.CORRUPT_MESSAGE, with_bytes(8, b"\0\0\0\0")),
    ("the largest timestamp", ErrorCode.INVALID_TIMESTAMP, with_fields(max_timestamp=2**63 - 1)),
]


@pytest.mark.parametrize("topic", list(TOPICS))
@pytest.mark.parametrize(
    ("code", "change"), [case[1:] for case in INCONSISTENT], ids=[case[0] for case in INCONSISTENT]
)
def test_an_inconsistent_batch_is_refused(
    client: RawClient, topic: str, code: ErrorCode, change: Change
) -> None:
    records = valid_batch()
    change(records)
    if code is ErrorCode.INVALID_TIMESTAMP and "LogAppendTime" in TOPICS[topic].values():
        code = ErrorCode.NONE
    assert produce(client, topic, records) is code
    assert produce(client, topic, valid_batch()) is ErrorCode.NONE


@pytest.mark.parametrize("records", [None, b"", b"\0", b"\0" * 60, b"\0" * 61, b"\xff" * 200])
def test_bytes_without_a_batch_are_refused(client: RawClient, records: bytes | None) -> None:
    assert produce(client, "plain", records) in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE)


def test_an_empty_batch_is_refused(client: RawClient) -> None:
    for topic in TOPICS:
        assert produce(client, topic, BatchBuilder().build()) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("topic", VALIDATING)
@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x0e\0\0\0\1\1",
        b"\x80" * 12,
        b"\xff\xff\xff\xff\x0f\0\0\0\1\1\0",
        struct.pack(">q", -1),
        # A record whose timestamp exceeds 64 bits: the current time plus the largest delta.
        b"\x1e\0\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\0\2k\1\0",
        # The largest count of headers.
        b"\x14\0\0\0\2k\1\xfe\xff\xff\xff\x0f",
    ],
    ids=["empty", "truncated", "varint", "length", "negative", "timestamp", "headers"],
)
def test_invalid_records_are_refused_where_they_are_parsed(
    client: RawClient, topic: str, payload: bytes
) -> None:
    codec = Compression.ZSTD if topic in ("gzip", "lz4", "uncompressed") else Compression.NONE
    records = batch_with_payload(compress(codec, payload) if codec else payload, codec)
    assert produce(client, topic, records) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name.lower())
@pytest.mark.parametrize("topic", VALIDATING)
def test_a_decompression_bomb_is_refused_in_bounded_memory(
    client: RawClient, topic: str, codec: Compression
) -> None:
    mebibytes = {Compression.SNAPPY: 20, Compression.LZ4: 200}.get(codec, BOMB_MEBIBYTES)
    payload = compression_bomb(codec, mebibytes)
    assert len(payload) < 1_000_000
    with Watch(client.address):
        if topic == codec.name.lower():
            codec = Compression.ZSTD
            payload = compression_bomb(codec, BOMB_MEBIBYTES)
        assert produce(client, topic, batch_with_payload(payload, codec)) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("size", [2**31, 2**32 - 1])
def test_a_size_declared_by_a_codec_is_not_allocated(client: RawClient, size: int) -> None:
    payloads = {
        Compression.ZSTD: zstd_frame_that_declares(size),
        Compression.SNAPPY: snappy_block_that_declares(size),
    }
    with Watch(client.address):
        for codec, payload in payloads.items():
            assert produce(client, "compact", batch_with_payload(payload, codec)) is ErrorCode.INVALID_RECORD


def test_a_stored_decompression_bomb_is_refused_by_a_timestamp_lookup(client: RawClient) -> None:
    before = now_ms()
    for codec in (Compression.GZIP, Compression.ZSTD, Compression.LZ4):
        mebibytes = 200 if codec is Compression.LZ4 else BOMB_MEBIBYTES
        assert (
            produce(client, "plain", batch_with_payload(compression_bomb(codec, mebibytes), codec))
            is ErrorCode.NONE
        )
        with Watch(client.address):
            code, offset = offset_at(client, "plain", before)
            assert code is ErrorCode.NONE and offset >= 0
            assert offset_at(client, "plain", -3)[0] is ErrorCode.NONE


@pytest.mark.parametrize("topic", list(TOPICS))
def test_a_batch_of_a_million_records_does_not_delay_others(client: RawClient, topic: str) -> None:
    """Records of the smallest size compress well, so that a million fit into a small request."""
    records = batch_of_least_records(1_000_000)
    with Watch(client.address):
        expected = ErrorCode.INVALID_RECORD if topic in VALIDATING else ErrorCode.NONE
        assert produce(client, topic, records) is expected
        assert offset_at(client, topic, now_ms() - 3_600_000)[0] is ErrorCode.NONE
