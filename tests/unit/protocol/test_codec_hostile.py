"""Bytes that nobody well-meaning sends: every one is a message or a DecodeError, at a bounded price.

What is decoded from damaged bytes is compared with a decoder of another making. Prices are
counted in bytes allocated, never in seconds.

Lessons: CVE-2026-111108 and CVE-2026-111115 (counts of arrays and tagged fields believed
before the bytes were there), CVE-2022-34917 (memory exhausted without authentication).
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

from tests.support.batches.mutations import HUGE, mutated
from tests.support.messages.all_messages import all_messages, versions_of
from tests.support.messages.naive_codec import naive_decode
from tests.support.messages.random_messages import (
    Declared,
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
"""What one decode may take however short the frame is: frames of calls, the error and its text."""


def unsigned_varint(value: int) -> bytes:
    """The compact form of `value`."""
    out = bytearray()
    write_unsigned_varint(out, value)
    return bytes(out)


def filled(cls: type[Message], version: int, random: Random) -> bytes:
    """A valid message with something in every field."""
    return encode(random_message(cls, version, random, Shape.FULL), version)


def outcome(
    decoder: Callable[[type[Message], bytes, int], Any], cls: type[Message], data: bytes, version: int
) -> bytes | None:
    """The bytes of the message that `decoder` finds in `data`, None if it refuses."""
    try:
        message = decoder(cls, data, version)
    except DecodeError:
        return None
    return encode(message, version)


def damaged_frames(cls: type[Message], version: int) -> Iterator[bytes]:
    random = Random(f"hostile {cls.__name__} {version}")
    data = filled(cls, version, random)
    for _ in range(MUTATIONS_PER_VERSION):
        yield mutated(data, random)
    for _ in range(RANDOM_FRAMES_PER_VERSION):
        yield random.randbytes(random.randrange(64))


def takes_less(limit_bytes: int, cls: type[Message], data: bytes, version: int) -> bool:
    """Return whether `data` is decoded or refused with a peak of memory below `limit_bytes`.

    One decode of nine is sufficient: the first compiles the codec, and threads of other tests allocate, too.
    """
    return any(peak_bytes_once(cls, data, version) < limit_bytes for _ in range(9))


def peak_bytes(cls: type[Message], data: bytes, version: int) -> int:
    """The most memory that was in use at one time while `data` was decoded or refused.

    The least of three times, as threads of other tests allocate in between.
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
def quiet() -> Iterator[None]:
    """No collection of garbage during the test: finalizers allocate, too."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("cls", all_messages(), ids=lambda cls: cls.__name__)
def test_a_message_cut_off_anywhere_is_refused(cls: type[Message]) -> None:
    for version in versions_of(cls):
        data = memoryview(filled(cls, version, Random(1)))
        for end in range(len(data)):
            with pytest.raises(DecodeError):
                decode(cls, data[:end], version)
            with pytest.raises(DecodeError):
                decode_prefix(cls, data[:end], version, 0)


@pytest.mark.parametrize("cls", all_messages(), ids=lambda cls: cls.__name__)
def test_damaged_bytes_are_refused_or_read_as_another_decoder_reads_them(cls: type[Message]) -> None:
    for version in versions_of(cls):
        for data in damaged_frames(cls, version):
            expected = outcome(naive_decode, cls, data, version)
            assert outcome(decode, cls, data, version) == expected, f"version {version}: {data.hex()}"


@pytest.mark.parametrize("cls", all_messages(), ids=lambda cls: cls.__name__)
def test_a_length_or_count_that_is_a_lie_allocates_nothing(cls: type[Message], quiet: None) -> None:
    for version in {versions_of(cls)[0], versions_of(cls)[-1]}:
        data = filled(cls, version, Random(2))
        peak_bytes(cls, data, version)
        for at in range(0, len(data), 7):
            for lie in HUGE:
                frame = data[:at] + lie + data[at + len(lie) :]
                most = ALLOCATION_FLOOR_BYTES + 8 * len(frame)
                assert takes_less(most, cls, frame, version), f"version {version}: {frame.hex()}"


def array_paths(cls: type[Struct], version: int) -> Iterator[tuple[Declared, ...]]:
    """The way to every array in `cls`, through the structs and arrays around it."""
    for field in declared_fields(cls):
        if version in field.kind.present:
            if isinstance(field.kind, Array):
                yield (field,)
            inner = inner_struct(field.kind)
            if inner is not None:
                yield from ((field, *path) for path in array_paths(inner, version))


def swollen(cls: type[Struct], path: tuple[Declared, ...], version: int, count: int) -> Any:
    """A struct in which the array at `path` has `count` elements of the least size."""
    field, *rest = path
    inner = inner_struct(field.kind)
    if rest:
        assert inner is not None
        value = swollen(inner, tuple(rest), version, count)
        value = (value,) if isinstance(field.kind, Array) else value
    elif inner is not None:
        value = (random_message(inner, version, Random(3), Shape.HOLLOW),) * count
    else:
        assert isinstance(field.kind, Array)
        value = ({String: "", Bytes: b"", Uuid: ZERO_UUID}.get(cast(Any, field.kind.element), 0),) * count
    whole = random_message(cls, version, Random(3), Shape.HOLLOW)
    return replace(whole, **{field.name: value})


@pytest.mark.parametrize("cls", all_messages(), ids=lambda cls: cls.__name__)
def test_an_array_of_the_smallest_elements_takes_memory_in_proportion(
    cls: type[Message], quiet: None
) -> None:
    for version in {versions_of(cls)[0], versions_of(cls)[-1]}:
        for path in array_paths(cls, version):
            data = encode(swollen(cls, path, version, 1000), version)
            assert takes_less(50 * len(data), cls, data, version), f"version {version}: {path}"


@pytest.mark.parametrize("count", [2**32 - 1, 10**6, TAGGED_FIELDS_MAX + 1, TAGGED_FIELDS_MAX, 401])
def test_a_count_of_tagged_fields_that_are_not_there_is_refused_at_once(count: int, quiet: None) -> None:
    for cls, start in ((ApiVersionsRequest, b"\x01\x01"), (ApiVersionsResponse, b"\0\0\x01\0\0\0\0")):
        frame = start + unsigned_varint(count) + b"\x05\0" * 400
        with pytest.raises(DecodeError, match=f"{count} tagged fields"):
            decode(cls, frame, 3)
        assert peak_bytes(cls, frame, 3) < ALLOCATION_FLOOR_BYTES


def test_a_million_tagged_fields_are_refused_without_looking_at_them(quiet: None) -> None:
    frame = b"\x01\x01" + unsigned_varint(10**6) + b"\x05\0" * 10**6
    with pytest.raises(DecodeError, match="1000000 tagged fields"):
        decode(ApiVersionsRequest, frame, 3)
    assert peak_bytes(ApiVersionsRequest, frame, 3) < ALLOCATION_FLOOR_BYTES


def test_as_many_unknown_tagged_fields_as_are_allowed_leave_nothing_behind(quiet: None) -> None:
    frame = b"\x01\x01" + unsigned_varint(TAGGED_FIELDS_MAX) + b"\x05\x01x" * TAGGED_FIELDS_MAX
    assert decode(ApiVersionsRequest, frame, 3) == ApiVersionsRequest()
    assert peak_bytes(ApiVersionsRequest, frame, 3) < ALLOCATION_FLOOR_BYTES


def test_a_tagged_array_sent_again_and_again_is_kept_once(quiet: None) -> None:
    response = ApiVersionsResponse(supported_features=(SupportedFeatureKey(name="feature"),) * 100)
    start = encode(ApiVersionsResponse(), 3)[:-1]
    field = encode(response, 3)[len(start) + 1 :]
    once = peak_bytes(ApiVersionsResponse, start + b"\x01" + field, 3)
    assert decode(ApiVersionsResponse, start + b"\x64" + field * 100, 3) == response
    assert peak_bytes(ApiVersionsResponse, start + b"\x64" + field * 100, 3) < 3 * once


@pytest.mark.parametrize(
    "length", ["8080808080", "808080808000", "ffffffff1f", "ffffffff7f", "ffffffffff", "8080"]
)
def test_a_bad_varint_is_refused_at_any_position(length: str) -> None:
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


def test_a_varint_with_leading_zeros_means_what_it_says() -> None:
    """Kafka reads 0x81 0x00 as 1, and so an overlong zero is a null."""
    assert decode(ApiVersionsRequest, bytes.fromhex("81008200618000"), 3) == ApiVersionsRequest(
        client_software_version="a"
    )
    assert decode(MetadataRequest, bytes.fromhex("800001000000"), 9).topics is None
    with pytest.raises(DecodeError):
        decode(ApiVersionsRequest, bytes.fromhex("8000016100"), 3)


def test_nested_arrays_cannot_multiply_their_counts(quiet: None) -> None:
    """Each level claims as many elements as the rest of the frame could hold, and only one is true."""
    topics = b"".join(b"\0\0" + b"\x01" + b"\0" * 17 + b"\xff\x07" for _ in range(200))
    frame = b"\0" * 4 + b"\x01" + b"\0" + b"\0" * 4 + b"\xc9\x01" + topics
    with pytest.raises(DecodeError):
        decode(MetadataResponse, frame, 12)
    assert peak_bytes(MetadataResponse, frame, 12) < ALLOCATION_FLOOR_BYTES
