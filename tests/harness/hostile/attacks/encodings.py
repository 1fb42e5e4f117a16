"""Bytes with false declarations of their content: compression bombs, counts, tags, varints, text (corpus)."""

from __future__ import annotations

import struct
from functools import partial
from random import Random

from tests.harness.hostile.attack import Attack
from tests.harness.hostile.attack_context import AttackContext
from tests.harness.hostile.frames import prefix_with_size, produce_frame, request_frame
from tests.harness.hostile.target import COMPACTED_TOPIC, PLAIN_TOPIC
from tests.support.batches.compression_bombs import (
    compression_bomb,
    snappy_block_that_declares,
    zstd_frame_that_declares,
)
from tests.support.batches.forged_batches import batch_with_payload, now_ms, valid_batch
from tests.support.batches.mutations import mutate
from tests.support.messages.random_messages import Shape, random_message
from tests.support.network.raw_client import served_versions
from tidelog.protocol.batch import read_header, write_header
from tidelog.protocol.codec import encode
from tidelog.protocol.compression import Compression
from tidelog.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tidelog.protocol.registry import request_header_version, request_type

BOMB_MIB = {Compression.GZIP: 256, Compression.SNAPPY: 20, Compression.LZ4: 200, Compression.ZSTD: 256}
SHORT_BOMB_MIB = 20
DECLARED_BYTES = 2**31
BAD_VARINTS = (b"\xff" * 5, b"\xff\xff\xff\xff\x0f", b"\x80" * 10, b"\xff\xff\xff\xff\x07")
TAGS = 1_000_000


def _send_a_bomb(codec: Compression, context: AttackContext) -> None:
    mebibytes = BOMB_MIB[codec] if context.scale == 1 else SHORT_BOMB_MIB
    payload = compression_bomb(codec, mebibytes)
    frames = [produce_frame(COMPACTED_TOPIC, bytes(batch_with_payload(payload, codec)))]
    if codec is Compression.ZSTD:
        wrong_value = zstd_frame_that_declares(DECLARED_BYTES)
        frames.append(produce_frame(COMPACTED_TOPIC, bytes(batch_with_payload(wrong_value, codec))))
    if codec is Compression.SNAPPY:
        wrong_value = snappy_block_that_declares(DECLARED_BYTES)
        frames.append(produce_frame(COMPACTED_TOPIC, bytes(batch_with_payload(wrong_value, codec))))
    client = context.client()
    context.begin()
    for frame in frames:
        context.repeat(frame, client)


def _search_stored_bombs(context: AttackContext) -> None:
    """Search by time in a topic that stores batches unopened; the search decompresses them."""
    client = context.client()
    for codec, mebibytes in BOMB_MIB.items():
        payload = compression_bomb(codec, mebibytes if context.scale == 1 else SHORT_BOMB_MIB)
        records = batch_with_payload(payload, codec, later_ms=3_000_000)
        context.exchange(client, produce_frame(PLAIN_TOPIC, bytes(records)))
    partitions = (ListOffsetsPartition(partition_index=0, timestamp=now_ms() + 1_500_000),)
    request = ListOffsetsRequest(
        replica_id=-1, topics=(ListOffsetsTopic(name=PLAIN_TOPIC, partitions=partitions),)
    )
    context.begin()
    context.repeat(request_frame(request, 7), client)


def _send_batches_with_wrong_headers(context: AttackContext) -> None:
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
        frames.append(produce_frame(COMPACTED_TOPIC, bytes(records)))
    for length in (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0"):
        records = valid_batch()
        records[8:12] = length
        frames.append(produce_frame(COMPACTED_TOPIC, bytes(records)))
    client = context.client()
    context.begin()
    while True:
        for frame in frames:
            if context.exchange(client, frame) is None:
                context.expect(False, "the connection was closed instead of an error code")
                return
        if context.has_ended:
            break


def _header(key: int, version: int) -> bytes:
    flexible = request_header_version(key, version) > 1
    return struct.pack(">hhih", key, version, 1, -1) + (b"\0" if flexible else b"")


def _send_wrong_counts(context: AttackContext) -> None:
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
        prefix_with_size(_header(key, version) + ending)
        for key, version in served_versions(*context.target.address)
        for ending in endings
    ]
    _send_to_be_closed(context, frames if context.scale == 1 else frames[:: int(1 / context.scale)])


def _send_to_be_closed(context: AttackContext, frames: list[bytes]) -> None:
    """Send frames, and open a new connection after each close."""
    client = context.client()
    context.begin()
    sent = 0
    while True:
        for frame in frames:
            responses = client.responses_to(frame)
            sent += 1
            if responses is None:
                client.close()
                client = context.client()
        if context.has_ended:
            break
    context.note(f"{sent:,} frames")


def _send_mutated_requests(context: AttackContext) -> None:
    random = Random(7)
    frames = []
    for key, version in served_versions(*context.target.address):
        cls = request_type(key)
        for shape in (Shape.FULL, Shape.MIXED, Shape.LONG):
            good = encode(random_message(cls, version, random, shape), version)
            frames.append(prefix_with_size(_header(key, version) + mutate(good, random)))
    _send_to_be_closed(context, frames if context.scale == 1 else frames[:: int(1 / context.scale)])


def _send_tagged_fields(context: AttackContext) -> None:
    """Send a million tagged fields in the header, as many at the end, and tags in reverse order."""
    count = context.size(TAGS, 1000)
    tags = b"".join(_varint(number) + b"\0" for number in range(count))
    section = _varint(count) + tags
    header = struct.pack(">hhih", 3, 12, 1, -1)
    frames = [
        prefix_with_size(header + section + b"\0\0\0\0"),
        prefix_with_size(header + b"\0" + b"\0\0\0" + section),
        prefix_with_size(header + _varint(2) + b"\x05\0\x04\0" + b"\0\0\0\0"),
        prefix_with_size(header + _varint(1) + _varint(2**31) + _varint(2**31)),
    ]
    _send_to_be_closed(context, frames)


def _send_bad_text(context: AttackContext) -> None:
    client_id = b"\xff\xfe\xc0\x80" * 8000
    frames = [
        prefix_with_size(struct.pack(">hhih", 18, 0, 1, len(client_id)) + client_id),
        prefix_with_size(
            struct.pack(">hhih", 3, 1, 1, len(client_id)) + client_id + b"\0\0\0\1\0\4\xff\xfe\xc0\x80"
        ),
    ]
    _send_to_be_closed(context, frames)


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
            actions=f"a Produce of a {codec.name.lower()} batch that expands to {mebibytes} MiB",
            run=partial(_send_a_bomb, codec),
            memory_mib=96,
        )
        for codec, mebibytes in BOMB_MIB.items()
    ),
    Attack(
        name="stored-bombs",
        item="corpus",
        actions="ListOffsets by timestamp over bombs of four codecs that were stored unopened",
        run=_search_stored_bombs,
        memory_mib=160,
    ),
    Attack(
        name="wrong-batch-headers",
        item="corpus",
        actions="batches whose header has wrong counts, lengths, offsets, times, attributes",
        run=_send_batches_with_wrong_headers,
    ),
    Attack(
        name="wrong-counts",
        item="corpus",
        actions="every API and version with counts and lengths beyond the frame, empty arrays, bad varints",
        run=_send_wrong_counts,
        log_lines_max=500,
    ),
    Attack(
        name="mutated-requests",
        item="corpus",
        actions="every API and version with damaged requests",
        run=_send_mutated_requests,
        memory_mib=128,
        log_lines_max=500,
        descriptors_kept=64,
    ),
    Attack(
        name="tagged-fields",
        item="corpus",
        actions="a million tagged fields, tags out of order, tags of impossible size",
        run=_send_tagged_fields,
    ),
    Attack(
        name="bad-text",
        item="corpus",
        actions="client ids and topic names that are not UTF-8",
        run=_send_bad_text,
    ),
)
