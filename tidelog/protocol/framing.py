"""Frames: a 4-byte size, a header, a message.

    request:   size int32 | api_key int16, api_version int16, correlation_id int32, client_id
               (nullable, int16 length) | tagged fields if the version is flexible | message
    response:  size int32 | correlation_id int32 | tagged fields if the version is flexible | message

Source: RequestHeader.json and ResponseHeader.json of Apache Kafka 4.3; KIP-482, KIP-511.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from tidelog.base.private_memory import private_mapping
from tidelog.protocol.codec import encode_in_steps, encode_into
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.primitives import skip_tagged_fields
from tidelog.protocol.registry import FLEXIBLE_FROM, request_header_version, response_header_version
from tidelog.protocol.schema import ApiMessage
from tidelog.protocol.steps import Heavy, Steps

SIZE_BYTES: Final = 4
"""The number of bytes of the size at the start of every frame."""

RESPONSE_BYTES_MAX: Final = 100_000_000
"""The maximum size of a response other than Fetch; librdkafka by default rejects larger ones."""

RESPONSE_PART_BYTES: Final = 1_048_576
"""A response that becomes larger while it is encoded is divided into parts, each of which is larger than this
except the last one. It also counts as heavy, see `tidelog.protocol.steps`.

A buffer of many megabytes would be moved to new memory several times while it grows, each time for up to 10
ms. Each part has memory of its own, which is released when the part has been sent.
"""

_SIZE: Final = struct.Struct(">i")
_REQUEST: Final = struct.Struct(">ihhih")
_REQUEST_HEADER: Final = struct.Struct(">hhih")
_REQUEST_HEADER_BYTES: Final = _REQUEST_HEADER.size
_RESPONSE: Final = struct.Struct(">ii")
_CORRELATION_ID: Final = struct.Struct(">i")
_NO_TAGGED_FIELDS: Final = 0
_CLIENT_ID_BYTES_MAX: Final = 0x7FFF


class RequestHeader(NamedTuple):
    """The API, version, id and client of a request; the response contains the same `correlation_id`."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def read_request_header(frame: memoryview) -> tuple[RequestHeader, int]:
    """Return the header of a request, and the position of the message; `frame` is without its size.

    As in Kafka, the client id has an int16 length in both header versions and may be null, and bytes in it
    that are not UTF-8 become replacement characters. The API version is not checked here, because the
    response to an unsupported version depends on the API.
    Errors: DecodeError for an unknown API, or if the frame ends within the header.
    """
    try:
        api_key, api_version, correlation_id, length = _REQUEST_HEADER.unpack_from(frame)
        flexible_from = FLEXIBLE_FROM.get(api_key)
        if flexible_from is None:
            raise DecodeError(f"unknown API key {api_key} (version {api_version})")
        position = _REQUEST_HEADER_BYTES
        client_id = None
        if length >= 0:
            end = position + length
            if end > len(frame):
                raise DecodeError(f"client id of {length} bytes ends at {end} of {len(frame)} bytes")
            client_id = str(frame[position:end], "utf-8", "replace")
            position = end
        if api_version >= flexible_from:
            position = skip_tagged_fields(frame, position) if frame[position] else position + 1
    except (struct.error, IndexError) as error:
        raise DecodeError(f"request header in a frame of {len(frame)} bytes: {error}") from error
    # The generated constructor takes twice the time.
    return tuple.__new__(RequestHeader, (api_key, api_version, correlation_id, client_id)), position


def encode_request(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, message: ApiMessage
) -> bytes:
    """Return a request frame with its size.

    Errors: ValueError if the version cannot express `message`.
    """
    start = _request_start(api_key, api_version, correlation_id, client_id, message)
    return _finish(start, message, api_version)


def encode_request_in_steps(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, message: ApiMessage
) -> Steps[bytearray]:
    """Return what `encode_request` returns, in steps for a large message."""
    frame = _request_start(api_key, api_version, correlation_id, client_id, message)
    yield from encode_in_steps(message, api_version, frame)
    _SIZE.pack_into(frame, 0, len(frame) - SIZE_BYTES)
    return frame


def encode_response(api_key: int, api_version: int, correlation_id: int, message: ApiMessage) -> bytes:
    """Return a response frame with its size.

    Errors: ValueError if the version cannot express `message`.
    """
    return _finish(_response_start(api_key, api_version, correlation_id, message), message, api_version)


def encode_response_in_steps(
    api_key: int, api_version: int, correlation_id: int, message: ApiMessage
) -> Steps[list[bytearray | memoryview]]:
    """Return what `encode_response` returns, in steps for a large message, and in parts for a large frame.

    Only few responses with several parts are encoded at a time.
    Errors: KafkaError INVALID_REQUEST over `RESPONSE_BYTES_MAX`.
    """
    buffer = _response_start(api_key, api_version, correlation_id, message)
    parts: list[bytearray | memoryview] = []
    size_bytes = 0
    for step in encode_in_steps(message, api_version, buffer):
        if len(buffer) > RESPONSE_PART_BYTES:
            size_bytes += len(buffer)
            _check_response_size(size_bytes)
            if not parts:
                yield Heavy.BEGINS
            parts.append(_in_own_memory(buffer))
            buffer.clear()
        yield step
    size_bytes += len(buffer)
    _check_response_size(size_bytes)
    parts.append(buffer)
    _SIZE.pack_into(parts[0], 0, size_bytes - SIZE_BYTES)
    return parts


def _in_own_memory(part: bytearray) -> memoryview:
    mapping = private_mapping(len(part))
    mapping.write(part)
    return memoryview(mapping)


def _check_response_size(size_bytes: int) -> None:
    if size_bytes > RESPONSE_BYTES_MAX:
        text = f"the response has more than {RESPONSE_BYTES_MAX} bytes; request fewer resources at a time"
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)


def _request_start(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, message: ApiMessage
) -> bytearray:
    assert message.api_key == api_key, f"{type(message).__name__} is not of api key {api_key}"
    client_id_bytes = b"" if client_id is None else client_id.encode()
    if len(client_id_bytes) > _CLIENT_ID_BYTES_MAX:
        raise ValueError(
            f"client id of {len(client_id_bytes)} bytes; at most {_CLIENT_ID_BYTES_MAX} bytes are allowed"
        )
    length = -1 if client_id is None else len(client_id_bytes)
    frame = bytearray(_REQUEST.pack(0, api_key, api_version, correlation_id, length))
    frame += client_id_bytes
    if request_header_version(api_key, api_version) > 1:
        frame.append(_NO_TAGGED_FIELDS)
    return frame


def _response_start(api_key: int, api_version: int, correlation_id: int, message: ApiMessage) -> bytearray:
    assert message.api_key == api_key, f"{type(message).__name__} is not of api key {api_key}"
    frame = bytearray(_RESPONSE.pack(0, correlation_id))
    if response_header_version(api_key, api_version) > 0:
        frame.append(_NO_TAGGED_FIELDS)
    return frame


def read_response_header(frame: memoryview, api_key: int, api_version: int) -> tuple[int, int]:
    """Return the correlation id of a response, and the position of the message; `frame` is without its size.

    Errors: DecodeError if the frame ends within the header.
    """
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
        position = _CORRELATION_ID.size
        if response_header_version(api_key, api_version) > 0:
            position = skip_tagged_fields(frame, position)
    except (struct.error, IndexError) as error:
        raise DecodeError(f"response header in a frame of {len(frame)} bytes: {error}") from error
    return correlation_id, position


def _finish(frame: bytearray, message: ApiMessage, api_version: int) -> bytes:
    encode_into(message, api_version, frame)
    _SIZE.pack_into(frame, 0, len(frame) - SIZE_BYTES)
    return bytes(frame)
