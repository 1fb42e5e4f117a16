"""Messages to bytes and back, by the declarations in `protocol.schema`.

For each class and version an encoder and a decoder are generated when first needed
(`protocol.encoder_source`, `protocol.decoder_source`) and kept.

`encode` raises ValueError for a value that the version cannot express: null where the
version has none, a number out of range, or a field that is set, matters, and is unknown to
the version. `decode` turns any bytes into a message or raises DecodeError; it takes time
and memory linear in the bytes given. Unknown tagged fields are skipped.

Source: Apache Kafka 4.3 message definitions and KIP-482; where Kafka is lenient (order and
repetition of tagged fields, booleans other than 1) so is this.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, TypeVar

from protocol.codec_plan import StructPlan, plan_struct
from protocol.codec_refusal import refusal
from protocol.decoder_source import Decoder, compile_decoder
from protocol.encoder_source import Encoder, compile_encoder
from protocol.errors import DecodeError
from protocol.primitives import Buffer
from protocol.schema import Message

M = TypeVar("M", bound=Message)


class _Codec(NamedTuple):
    """The generated functions of one class in one version."""

    encode: Encoder
    decode: Decoder
    plan: StructPlan


_codecs: dict[tuple[type[Message], int], _Codec] = {}


def encode(message: Message, version: int) -> bytes:
    """The bytes of `message` in `version`."""
    out = bytearray()
    encode_into(message, version, out)
    return bytes(out)


def encode_into(message: Message, version: int, out: bytearray) -> None:
    """Append the bytes of `message` in `version` to `out`, or nothing if it raises."""
    codec = _codecs.get((type(message), version)) or _make_codec(type(message), version)
    start = len(out)
    try:
        codec.encode(message, out)
    except (ValueError, TypeError, AttributeError, struct.error) as error:
        del out[start:]
        raise ValueError(refusal(codec.plan, message) or f"{codec.plan.name}: {error}") from error


def decode(cls: type[M], buffer: Buffer, version: int) -> M:
    """The message that fills the whole of `buffer`; `records` in it are views of `buffer`."""
    message, position = decode_prefix(cls, buffer, version, 0)
    if position != len(buffer):
        raise DecodeError(f"{len(buffer) - position} bytes follow {cls.__name__} version {version}")
    return message


def decode_prefix(cls: type[M], buffer: Buffer, version: int, position: int) -> tuple[M, int]:
    """The message that starts at `position` of `buffer`, and the position behind it."""
    codec = _codecs.get((cls, version)) or _make_codec(cls, version)
    size = len(buffer)
    try:
        message, end = codec.decode(memoryview(buffer), position, size)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise DecodeError(f"{cls.__name__} version {version} in {size} bytes: {error}") from error
    if end > size:
        raise DecodeError(f"{cls.__name__} version {version} ends at {end} of {size} bytes")
    return message, end


def _make_codec(cls: type[Message], version: int) -> _Codec:
    if version not in cls.valid_versions:
        raise ValueError(f"{cls.__name__} has no version {version}")
    plan = plan_struct(cls, version, version in cls.flexible_versions)
    codec = _Codec(compile_encoder(plan), compile_decoder(plan), plan)
    _codecs[cls, version] = codec
    return codec
