"""Hostile bytes: each input becomes a message or a DecodeError, with bounded memory.

The result of decoding damaged bytes is compared with that of an independent decoder. Memory is
counted in allocated bytes; time is not measured.

Lessons: CVE-2026-111108 and CVE-2026-111115 (counts of arrays and tagged fields were trusted
before their bytes had arrived), CVE-2022-34917 (memory exhausted without authentication).
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any, cast

import pytest

from tests.support.batches.mutations import HUGE, mutate
from tests.support.messages.all_messages import all_messages, versions_of
from tests.support.messages.naive_codec import naive_decode
from tests.support.messages.random_messages import (
    DeclaredField,
    Shape,
    declared_fields,
    inner_struct,
    random_message,
)
from tidelog.protocol.codec import decode, decode_prefix, encode
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    SupportedFeatureKey,
)
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tidelog.protocol.primitives import TAGGED_FIELDS_MAX, write_unsigned_varint
from tidelog.protocol.schema import ZERO_UUID, Array, Bytes, Message, String, Struct, Uuid

MUTATIONS_PER_VERSION = 25
RANDOM_FRAMES_PER_VERSION = 8
ALLOCATION_FLOOR_BYTES = 16 * 1024
"""The bytes that one decode may allocate for any frame: frames of calls, the error and its text."""


def unsigned_varint(value: int) -> bytes:
    """Return the compact form of `value`."""
    out = bytearray()
    write_unsigned_varint(out, value)
    return bytes(out)


def encode_random_message(cls: type[Message], version: int, random: Random) -> bytes:
    """Return a valid message in which every field is set."""
    return encode(random_message(cls, version, random, Shape.FULL), version)


def decode_and_encode(
    decoder: Callable[[type[Message], bytes, int], Any], cls: type[Message], data: bytes, version: int
) -> bytes | None:
    """Return the re-encoded message that `decoder` reads from `data`, or None if it refuses."""
    try:
        message = decoder(cls, data, version)
    except DecodeError:
        return None
    return encode(message, version)


def damaged_frames(cls: type[Message], version: int) -> Iterator[bytes]:
    random = Random(f"hostile {cls.__name__} {version}")
    data = encode_random_message(cls, version, random)
    for _ in range(MUTATIONS_PER_VERSION):
        yield mutate(data, random)
    for _ in range(RANDOM_FRAMES_PER_VERSION):
        yield random.randbytes(random.randrange(64))


def is_decoded_below(limit_bytes: int, cls: type[Message], data: bytes, version: int) -> bool:
    """Return whether `data` is decoded or refused with a peak of memory below `limit_bytes`.

    One decode of nine is sufficient: the first compiles the codec, and threads of other tests allocate, too.
    """
    return any(peak_bytes_once(cls, data, version) < limit_bytes for _ in range(9))


def peak_bytes(cls: type[Message], data: bytes, version: int) -> int:
    """Return the peak of allocated bytes while `data` is decoded or refused.

    The result is the minimum of three runs, because threads of other tests allocate meanwhile.
    """
    return min(peak_bytes_once(cls, data, version) for _ in range(3))


def peak_bytes_once(cls: type[Message], data: bytes, version: int) -> int:
    tracemalloc.start()
    try:
        with suppress(DecodeError):
            decode(cls, data, version)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture
def garbage_collection_disabled() -> Iterator[None]:
    """Disable garbage collection during the test, because finalizers allocate memory."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("cls", all_messages(), ids=lambda cls: cls.__name__)
def test_a_truncated_message_is_refused(cls: type[Message]) -> None:
    for version in versions_of(cls):
        data = memoryview(encode_random_message(cls, version, Random(1)))
        for end in range(len(data)):
            with pytest.raises(DecodeError):
                decode(cls, data[:end], version)
            with pytest.raises(DecodeError):
                decode_prefix(cls, data[:end], version, 0)


@pytest.mark.parametrize("cls", all_messages(), ids=lambda cls: cls.__name__)
def test_damaged_bytes_are_refused_or_decoded_as_by_kio(cls: type[Message]) -> None:
    for version in versions_of(cls):
        for data in damaged_frames(cls, version):
            expected = decode_and_encode(naive_decode, cls, data, version)
            assert decode_and_encode(decode, cls, data, version) == expected, (
                f"version {version}: {data.hex()}"
            )


@pytest.mark.parametrize("cls", all_messages(), ids=lambda cls: cls.__name__)
def test_a_false_length_or_count_allocates_nothing(
    cls: type[Message], garbage_collection_disabled: None
) -> None:
    for version in {versions_of(cls)[0], versions_of(cls)[-1]}:
        data = encode_random_message(cls, version, Random(2))
        peak_bytes(cls, data, version)
        for at in range(0, len(data), 7):
            for huge in HUGE:
                frame = data[:at] + huge + data[at + len(huge) :]
                most = ALLOCATION_FLOOR_BYTES + 8 * len(frame)
                assert is_decoded_below(most, cls, frame, version), f"version {version}: {frame.hex()}"


def array_paths(cls: type[Struct], version: int) -> Iterator[tuple[DeclaredField, ...]]:
    """Return the path to every array in `cls`, through structs and arrays."""
    for field in declared_fields(cls):
        if version in field.kind.present:
            if isinstance(field.kind, Array):
                yield (field,)
            inner = inner_struct(field.kind)
            if inner is not None:
                yield from ((field, *path) for path in array_paths(inner, version))


def with_long_array(cls: type[Struct], path: tuple[DeclaredField, ...], version: int, count: int) -> Any:
    """Return a struct in which the array at `path` has `count` elements of minimal size."""
    field, *rest = path
    inner = inner_struct(field.kind)
    if rest:
        assert inner is not None
        value = with_long_array(inner, tuple(rest), version, count)
        value = (value,) if isinstance(field.kind, Array) else value
    elif inner is not None:
        value = (random_message(inner, version, Random(3), Shape.HOLLOW),) * count
    else:
        assert isinstance(field.kind, Array)
        value = ({String: "", Bytes: b"", Uuid: ZERO_UUID}.get(cast(Any, field.kind.element), 0),) * count
    message = random_message(cls, version, Random(3), Shape.HOLLOW)
    return replace(message, **{field.name: value})


@pytest.mark.parametrize("cls", all_messages(), ids=lambda cls: cls.__name__)
def test_memory_of_an_array_of_minimal_elements_is_proportional_to_its_bytes(
    cls: type[Message], garbage_collection_disabled: None
) -> None:
    for version in {versions_of(cls)[0], versions_of(cls)[-1]}:
        for path in array_paths(cls, version):
            data = encode(with_long_array(cls, path, version, 1000), version)
            assert is_decoded_below(50 * len(data), cls, data, version), f"version {version}: {path}"


@pytest.mark.parametrize("count", [2**32 - 1, 10**6, TAGGED_FIELDS_MAX + 1, TAGGED_FIELDS_MAX, 401])
def test_a_count_of_absent_tagged_fields_is_refused_at_once(
    count: int, garbage_collection_disabled: None
) -> None:
    for cls, start in ((ApiVersionsRequest, b"\x01\x01"), (ApiVersionsResponse, b"\0\0\x01\0\0\0\0")):
        frame = start + unsigned_varint(count) + b"\x05\0" * 400
        with pytest.raises(DecodeError, match=f"{count} tagged fields"):
            decode(cls, frame, 3)
        assert peak_bytes(cls, frame, 3) < ALLOCATION_FLOOR_BYTES


def test_a_million_tagged_fields_are_refused_by_their_count(garbage_collection_disabled: None) -> None:
    frame = b"\x01\x01" + unsigned_varint(10**6) + b"\x05\0" * 10**6
    with pytest.raises(DecodeError, match="1000000 tagged fields"):
        decode(ApiVersionsRequest, frame, 3)
    assert peak_bytes(ApiVersionsRequest, frame, 3) < ALLOCATION_FLOOR_BYTES


def test_the_maximum_of_unknown_tagged_fields_keeps_no_memory(garbage_collection_disabled: None) -> None:
    frame = b"\x01\x01" + unsigned_varint(TAGGED_FIELDS_MAX) + b"\x05\x01x" * TAGGED_FIELDS_MAX
    assert decode(ApiVersionsRequest, frame, 3) == ApiVersionsRequest()
    assert peak_bytes(ApiVersionsRequest, frame, 3) < ALLOCATION_FLOOR_BYTES


def test_a_repeated_tagged_array_is_kept_once(garbage_collection_disabled: None) -> None:
    response = ApiVersionsResponse(supported_features=(SupportedFeatureKey(name="feature"),) * 100)
    start = encode(ApiVersionsResponse(), 3)[:-1]
    field = encode(response, 3)[len(start) + 1 :]
    once = peak_bytes(ApiVersionsResponse, start + b"\x01" + field, 3)
    assert decode(ApiVersionsResponse, start + b"\x64" + field * 100, 3) == response
    assert peak_bytes(ApiVersionsResponse, start + b"\x64" + field * 100, 3) < 3 * once


@pytest.mark.parametrize(
    "length", ["8080808080", "808080808000", "ffffffff1f", "ffffffff7f", "ffffffffff", "8080"]
)
def test_an_invalid_varint_is_refused_at_any_position(length: str) -> None:
    bad = bytes.fromhex(length)
    tail = b"\0" * (0 if length == "8080" else 10)
    for cls, version, start in (
        (ApiVersionsRequest, 3, b""),
        (ApiVersionsRequest, 3, b"\x01\x01"),
        (ApiVersionsRequest, 3, b"\x01\x01\x01"),
        (ApiVersionsRequest, 3, b"\x01\x01\x01\x05"),
        (MetadataRequest, 9, b""),
        (MetadataRequest, 9, b"\x02"),
    ):
        with pytest.raises(DecodeError):
            decode(cls, start + bad + tail, version)


def test_a_varint_with_leading_zeros_is_decoded() -> None:
    """Kafka reads 0x81 0x00 as 1, so an overlong zero is null."""
    assert decode(ApiVersionsRequest, bytes.fromhex("81008200618000"), 3) == ApiVersionsRequest(
        client_software_version="a"
    )
    assert decode(MetadataRequest, bytes.fromhex("800001000000"), 9).topics is None
    with pytest.raises(DecodeError):
        decode(ApiVersionsRequest, bytes.fromhex("8000016100"), 3)


def test_counts_of_nested_arrays_are_bounded_together(garbage_collection_disabled: None) -> None:
    """Each level declares as many elements as the rest of the frame could hold; only one count is correct."""
    topics = b"".join(b"\0\0" + b"\x01" + b"\0" * 17 + b"\xff\x07" for _ in range(200))
    frame = b"\0" * 4 + b"\x01" + b"\0" + b"\0" * 4 + b"\xc9\x01" + topics
    with pytest.raises(DecodeError):
        decode(MetadataResponse, frame, 12)
    assert peak_bytes(MetadataResponse, frame, 12) < ALLOCATION_FLOOR_BYTES
