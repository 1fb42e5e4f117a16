"""Bytes with false declarations of their content: compression bombs, counts, tags, varints, text (corpus)."""

from __future__ import annotations

import struct
from functools import partial
from random import Random

from tests.harness.hostile.attack import Attack
from tests.harness.hostile.attack_context import Scene
from tests.harness.hostile.frames import framed, sized
from tests.harness.hostile.target import COMPACTED_TOPIC, PLAIN_TOPIC
from tests.support.batches.compression_bombs import bomb, snappy_block_that_declares, zstd_frame_that_declares
from tests.support.batches.forged_batches import batch_with_payload, now_ms, valid_batch
from tests.support.batches.mutations import mutated
from tests.support.messages.random_messages import Shape, random_message
from tests.support.network.raw_client import served_versions
from tidelog.protocol.batch import read_header, write_header
from tidelog.protocol.codec import encode
from tidelog.protocol.compression import Compression
from tidelog.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tidelog.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.protocol.registry import request_header_version, request_type

BOMB_MIB = {Compression.GZIP: 256, Compression.SNAPPY: 20, Compression.LZ4: 200, Compression.ZSTD: 256}
SHORT_BOMB_MIB = 20
DECLARED_BYTES = 2**31
BAD_VARINTS = (b"\xff" * 5, b"\xff\xff\xff\xff\x0f", b"\x80" * 10, b"\xff\xff\xff\xff\x07")
TAGS = 1_000_000


def _produce_frame(topic: str, records: bytes) -> bytes:
    data = (PartitionProduceData(index=0, records=records),)
    request = ProduceRequest(
        acks=1, timeout_ms=30_000, topic_data=(TopicProduceData(name=topic, partition_data=data),)
    )
    return framed(request, 9)


def _send_a_bomb(codec: Compression, scene: Scene) -> None:
    mebibytes = BOMB_MIB[codec] if scene.scale == 1 else SHORT_BOMB_MIB
    payload = bomb(codec, mebibytes)
    frames = [_produce_frame(COMPACTED_TOPIC, bytes(batch_with_payload(payload, codec)))]
    if codec is Compression.ZSTD:
        wrong_value = zstd_frame_that_declares(DECLARED_BYTES)
        frames.append(_produce_frame(COMPACTED_TOPIC, bytes(batch_with_payload(wrong_value, codec))))
    if codec is Compression.SNAPPY:
        wrong_value = snappy_block_that_declares(DECLARED_BYTES)
        frames.append(_produce_frame(COMPACTED_TOPIC, bytes(batch_with_payload(wrong_value, codec))))
    client = scene.client()
    scene.begin()
    for frame in frames:
        scene.repeat(frame, client)


def _search_stored_bombs(scene: Scene) -> None:
    """Search by time in a topic that stores batches unopened; the search decompresses them."""
    client = scene.client()
    for codec, mebibytes in BOMB_MIB.items():
        payload = bomb(codec, mebibytes if scene.scale == 1 else SHORT_BOMB_MIB)
        records = batch_with_payload(payload, codec, later_ms=3_000_000)
        scene.exchange(client, _produce_frame(PLAIN_TOPIC, bytes(records)))
    partitions = (ListOffsetsPartition(partition_index=0, timestamp=now_ms() + 1_500_000),)
    request = ListOffsetsRequest(
        replica_id=-1, topics=(ListOffsetsTopic(name=PLAIN_TOPIC, partitions=partitions),)
    )
    scene.begin()
    scene.repeat(framed(request, 7), client)


def _send_batches_with_wrong_headers(scene: Scene) -> None:
    header = read_header(valid_batch())
    wrong_values = (
        {"record_count": 2**31 - 1, "last_offset_delta": 2**31 - 2},
        {"record_count": -1},
        {"record_count": 0},
        {"last_offset_delta": -1},
        {"attributes": 0x20},
        {"attributes": 7},
        {"max_timestamp": 2**63 - 1},
        {"producer_id": 7, "producer_epoch": 0},
        {"base_offset": 2**62},
    )
    frames = []
    for wrong_value in wrong_values:
        records = valid_batch()
        write_header(records, 0, header._replace(**wrong_value))
        frames.append(_produce_frame(COMPACTED_TOPIC, bytes(records)))
    for length in (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0"):
        records = valid_batch()
        records[8:12] = length
        frames.append(_produce_frame(COMPACTED_TOPIC, bytes(records)))
    client = scene.client()
    scene.begin()
    while True:
        for frame in frames:
            if scene.exchange(client, frame) is None:
                scene.expect(False, "the connection was closed instead of an error code")
                return
        if scene.is_over:
            break


def _header(key: int, version: int) -> bytes:
    flexible = request_header_version(key, version) > 1
    return struct.pack(">hhih", key, version, 1, -1) + (b"\0" if flexible else b"")


def _send_wrong_counts(scene: Scene) -> None:
    """Send every API and version with an array, string or struct that declares any length."""
    endings = (
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff",
        b"\xff\xff\xff\xff\x07",
        b"\x7f\xff",
        b"\x01" * 64,
        b"\0" * 64,
        *BAD_VARINTS,
    )
    frames = [
        sized(_header(key, version) + ending)
        for key, version in served_versions(*scene.target.address)
        for ending in endings
    ]
    _send_to_be_closed(scene, frames if scene.scale == 1 else frames[:: int(1 / scene.scale)])


def _send_to_be_closed(scene: Scene, frames: list[bytes]) -> None:
    """Send frames, and open a new connection after each close."""
    client = scene.client()
    scene.begin()
    sent = 0
    while True:
        for frame in frames:
            answers = client.answers_to(frame)
            sent += 1
            if answers is None:
                client.close()
                client = scene.client()
        if scene.is_over:
            break
    scene.note(f"{sent:,} frames")


def _send_mutated_requests(scene: Scene) -> None:
    random = Random(7)
    frames = []
    for key, version in served_versions(*scene.target.address):
        cls = request_type(key)
        for shape in (Shape.FULL, Shape.MIXED, Shape.LONG):
            good = encode(random_message(cls, version, random, shape), version)
            frames.append(sized(_header(key, version) + mutated(good, random)))
    _send_to_be_closed(scene, frames if scene.scale == 1 else frames[:: int(1 / scene.scale)])


def _send_tagged_fields(scene: Scene) -> None:
    """Send a million tagged fields in the header, as many at the end, and tags in reverse order."""
    count = scene.size(TAGS, 1000)
    tags = b"".join(_varint(number) + b"\0" for number in range(count))
    section = _varint(count) + tags
    header = struct.pack(">hhih", 3, 12, 1, -1)
    frames = [
        sized(header + section + b"\0\0\0\0"),
        sized(header + b"\0" + b"\0\0\0" + section),
        sized(header + _varint(2) + b"\x05\0\x04\0" + b"\0\0\0\0"),
        sized(header + _varint(1) + _varint(2**31) + _varint(2**31)),
    ]
    _send_to_be_closed(scene, frames)


def _send_bad_text(scene: Scene) -> None:
    client_id = b"\xff\xfe\xc0\x80" * 8000
    frames = [
        sized(struct.pack(">hhih", 18, 0, 1, len(client_id)) + client_id),
        sized(struct.pack(">hhih", 3, 1, 1, len(client_id)) + client_id + b"\0\0\0\1\0\4\xff\xfe\xc0\x80"),
    ]
    _send_to_be_closed(scene, frames)


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


ATTACKS = (
    *(
        Attack(
            name=f"bomb-{codec.name.lower()}",
            item="corpus",
            does=f"a Produce of a {codec.name.lower()} batch that expands to {mebibytes} MiB",
            run=partial(_send_a_bomb, codec),
            memory_mib=96,
        )
        for codec, mebibytes in BOMB_MIB.items()
    ),
    Attack(
        name="stored-bombs",
        item="corpus",
        does="ListOffsets by timestamp over bombs of four codecs that were stored unopened",
        run=_search_stored_bombs,
        memory_mib=160,
    ),
    Attack(
        name="batch-lies",
        item="corpus",
        does="batches whose header has wrong counts, lengths, offsets, times, attributes",
        run=_send_batches_with_wrong_headers,
    ),
    Attack(
        name="count-lies",
        item="corpus",
        does="every API and version with counts and lengths beyond the frame, empty arrays, bad varints",
        run=_send_wrong_counts,
        log_lines_max=500,
    ),
    Attack(
        name="mutated-requests",
        item="corpus",
        does="every API and version with damaged requests",
        run=_send_mutated_requests,
        memory_mib=128,
        log_lines_max=500,
        descriptors_kept=64,
    ),
    Attack(
        name="tagged-fields",
        item="corpus",
        does="a million tagged fields, tags out of order, tags of impossible size",
        run=_send_tagged_fields,
    ),
    Attack(
        name="bad-text",
        item="corpus",
        does="client ids and topic names that are not UTF-8",
        run=_send_bad_text,
    ),
)
