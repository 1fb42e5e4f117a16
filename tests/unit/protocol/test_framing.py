"""Frames: sizes, headers of every API and version, and tolerated deviations."""

from __future__ import annotations

import struct

import pytest

from tests.support.messages.all_messages import versions_of
from tidelog.protocol.codec import decode, decode_prefix, encode
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.framing import (
    SIZE_BYTES,
    RequestHeader,
    encode_request,
    encode_response,
    read_request_header,
    read_response_header,
)
from tidelog.protocol.messages import headers
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tidelog.protocol.registry import (
    APIS,
    request_header_version,
    request_type,
    response_header_version,
    response_type,
)


def frame_of(data: bytes) -> memoryview:
    """Return the frame after its size, which must be correct."""
    (size,) = struct.unpack_from(">i", data)
    assert size == len(data) - SIZE_BYTES
    return memoryview(data)[SIZE_BYTES:]


@pytest.mark.parametrize("key", sorted(APIS))
def test_requests_and_responses_of_every_version_are_framed_and_read_back(key: int) -> None:
    for version in versions_of(request_type(key)):
        request, response = request_type(key)(), response_type(key)()
        frame = frame_of(encode_request(key, version, -7, "me", request))
        header, start = read_request_header(frame)
        assert header == RequestHeader(key, version, -7, "me")
        assert decode(request_type(key), frame[start:], version) == request
        frame = frame_of(encode_response(key, version, 2**31 - 1, response))
        correlation_id, start = read_response_header(frame, key, version)
        assert correlation_id == 2**31 - 1
        assert decode(response_type(key), frame[start:], version) == response


@pytest.mark.parametrize("client_id", [None, "", "consumer-1", "größe"])
@pytest.mark.parametrize("version", [8, 9])
def test_header_versions_equal_the_header_messages(client_id: str | None, version: int) -> None:
    frame = frame_of(encode_request(3, version, 5, client_id, MetadataRequest()))
    header, position = decode_prefix(headers.RequestHeader, frame, request_header_version(3, version), 0)
    assert header == headers.RequestHeader(
        request_api_key=3, request_api_version=version, correlation_id=5, client_id=client_id
    )
    assert read_request_header(frame) == (RequestHeader(3, version, 5, client_id), position)
    frame = frame_of(encode_response(3, version, 5, MetadataResponse()))
    response_header, position = decode_prefix(
        headers.ResponseHeader, frame, response_header_version(3, version), 0
    )
    assert response_header == headers.ResponseHeader(correlation_id=5)
    assert read_response_header(frame, 3, version) == (5, position)


def test_the_bytes_of_a_request_frame() -> None:
    request = ApiVersionsRequest(client_software_name="a", client_software_version="b")
    assert encode_request(18, 3, 7, "me", request).hex(" ") == (
        "00 00 00 12 00 12 00 03 00 00 00 07 00 02 6d 65 00 02 61 02 62 00"
    )


def test_the_bytes_of_a_response_frame() -> None:
    response = ApiVersionsResponse(error_code=35)
    assert encode_response(18, 3, 7, response).hex(" ") == ("00 00 00 0c 00 00 00 07 00 23 01 00 00 00 00 00")


def test_tagged_fields_in_headers_are_skipped() -> None:
    plain = frame_of(encode_request(3, 9, 5, "me", MetadataRequest()))
    _, start = read_request_header(plain)
    tagged = bytes(plain[: start - 1]) + bytes.fromhex("010902aabb") + bytes(plain[start:])
    assert read_request_header(memoryview(tagged)) == (RequestHeader(3, 9, 5, "me"), start + 4)
    response = memoryview(bytes.fromhex("00000005010902aabb"))
    assert read_response_header(response, 3, 9) == (5, 9)


def test_an_unknown_version_is_returned_to_the_caller() -> None:
    header = struct.pack(">hhih", 18, 99, 5, 2) + b"me" + b"\0"
    assert read_request_header(memoryview(header)) == (RequestHeader(18, 99, 5, "me"), 13)
    header = struct.pack(">hhih", 18, -3, 5, -1)
    assert read_request_header(memoryview(header)) == (RequestHeader(18, -3, 5, None), 10)


def test_a_client_id_with_invalid_utf_8_gets_replacement_characters() -> None:
    header = struct.pack(">hhih", 3, 8, 5, 3) + b"a\xffb"
    assert read_request_header(memoryview(header))[0].client_id == "a\ufffdb"


@pytest.mark.parametrize("key", [-1, 4, 7, 93, 32767])
def test_an_unknown_api_key_is_refused(key: int) -> None:
    header = struct.pack(">hhih", key, 0, 5, -1)
    with pytest.raises(DecodeError, match=f"API key {key} "):
        read_request_header(memoryview(header))


@pytest.mark.parametrize("version", [8, 9])
def test_truncated_headers_are_refused(version: int) -> None:
    frame = frame_of(encode_request(3, version, 5, "client", MetadataRequest()))
    _, start = read_request_header(frame)
    for end in range(start):
        with pytest.raises(DecodeError):
            read_request_header(frame[:end])
    frame = frame_of(encode_response(3, version, 5, MetadataResponse()))
    _, start = read_response_header(frame, 3, version)
    for end in range(start):
        with pytest.raises(DecodeError):
            read_response_header(frame[:end], 3, version)


def test_a_client_id_longer_than_the_frame_is_refused() -> None:
    header = struct.pack(">hhih", 3, 8, 5, 32767) + b"short"
    with pytest.raises(DecodeError, match="32767"):
        read_request_header(memoryview(header))


def test_a_client_id_beyond_32767_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="32768"):
        encode_request(3, 8, 5, "x" * 32768, MetadataRequest())
    assert encode(headers.RequestHeader(client_id="x" * 32767), 1)
