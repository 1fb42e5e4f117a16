"""The encoding and decoding of messages that are declared with `tidelog.protocol.schema`.

An encoder and a decoder are generated when a class and version is used first
(`tidelog.protocol.encoder_source`, `tidelog.protocol.decoder_source`), and are then kept.

`encode` raises ValueError for a value that the version cannot express: null for a field that is not nullable,
a number out of range, or a value other than the default for a field that the version lacks and that is not
ignorable. `decode` returns a message or raises DecodeError. Its time and memory are linear in the number of
bytes. Unknown tagged fields are skipped.

`decode_in_steps` and `encode_in_steps` do the same in steps, for large messages. `decode_in_steps` rejects a
message of more than `ELEMENTS_MAX` elements, because its objects take up to a hundred times its bytes.

Source: Apache Kafka 4.3 message definitions and KIP-482. Like Kafka, the decoder accepts tagged fields in any
order or repeated, and booleans other than 0 and 1.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple, TypeAlias, TypeVar

from tidelog.protocol.codec_plan import StructPlan, plan_struct
from tidelog.protocol.codec_refusal import refusal
from tidelog.protocol.decoder_source import Decoder, DecoderInSteps, compile_decoder, compile_decoder_in_steps
from tidelog.protocol.encoder_source import Encoder, EncoderInSteps, compile_encoder, compile_encoder_in_steps
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.primitives import Buffer
from tidelog.protocol.schema import Array, Bytes, Message, Struct
from tidelog.protocol.steps import Steps

M = TypeVar("M", bound=Message)


_Arrays: TypeAlias = "tuple[tuple[str, _Arrays | None], ...]"


class _Codec(NamedTuple):
    """The generated functions of one class in one version."""

    encode: Encoder
    decode: Decoder
    plan: StructPlan
    arrays: _Arrays


class _CodecInSteps(NamedTuple):
    """The generated generator functions of one class in one version."""

    encode: EncoderInSteps
    decode: DecoderInSteps


ELEMENTS_MAX: Final = 1_000_000
"""The maximum number of array elements of a message that is decoded in steps."""

BYTES_PER_ELEMENT: Final = 4096
"""The number of bytes of one field that are copied in the time that an element takes."""

_codecs: dict[tuple[type[Message], int], _Codec] = {}
_codecs_in_steps: dict[tuple[type[Message], int], _CodecInSteps] = {}


def encode(message: Message, version: int) -> bytes:
    """Return the bytes of `message` in `version`.

    Errors: ValueError if the version cannot express `message`.
    """
    out = bytearray()
    encode_into(message, version, out)
    return bytes(out)


def encode_into(message: Message, version: int, out: bytearray) -> None:
    """Append the bytes of `message` in `version` to `out`.

    Errors: ValueError if the version cannot express `message`; `out` is then unchanged.
    """
    codec = _codecs.get((type(message), version)) or _make_codec(type(message), version)
    start = len(out)
    try:
        codec.encode(message, out)
    except (ValueError, TypeError, AttributeError, struct.error) as error:
        del out[start:]
        raise ValueError(refusal(codec.plan, message) or f"{codec.plan.name}: {error}") from error


def decode(cls: type[M], buffer: Buffer, version: int) -> M:
    """Return the message that takes the whole `buffer`; its `Records` fields are views of `buffer`.

    Errors: DecodeError.
    """
    message, position = decode_prefix(cls, buffer, version, 0)
    if position != len(buffer):
        raise DecodeError(f"{len(buffer) - position} bytes remain after {cls.__name__} version {version}")
    return message


def decode_prefix(cls: type[M], buffer: Buffer, version: int, position: int) -> tuple[M, int]:
    """Return the message that starts at `position` of `buffer`, and the position after it.

    Errors: DecodeError.
    """
    codec = _codecs.get((cls, version)) or _make_codec(cls, version)
    size = len(buffer)
    try:
        message, end = codec.decode(memoryview(buffer), position, size)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise DecodeError(f"{cls.__name__} version {version} in {size} bytes: {error}") from error
    if end > size:
        raise DecodeError(f"{cls.__name__} version {version} ends at {end} of {size} bytes")
    return message, end


def decode_in_steps(cls: type[M], buffer: Buffer, version: int) -> Steps[M]:
    """Return the message at the start of `buffer`, which must not change until the end.

    Errors: DecodeError, also for more than `ELEMENTS_MAX` elements.
    """
    codec = _codecs_in_steps.get((cls, version)) or _make_codec_in_steps(cls, version)
    size = len(buffer)
    decoding = codec.decode(memoryview(buffer), 0, size)
    elements = 0
    while True:
        try:
            elements += next(decoding)
        except StopIteration as result:
            message, end = result.value
            break
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise DecodeError(f"{cls.__name__} version {version} in {size} bytes: {error}") from error
        if elements > ELEMENTS_MAX:
            raise DecodeError(f"{cls.__name__} version {version} has more than {ELEMENTS_MAX} elements")
        yield None
    if end > size:
        raise DecodeError(f"{cls.__name__} version {version} ends at {end} of {size} bytes")
    decoded: M = message
    return decoded


def encode_in_steps(message: Message, version: int, out: bytearray) -> Steps[None]:
    """Append the bytes of `message` in `version` to `out`.

    Errors: ValueError if the version cannot express `message`; a part may then have been appended.
    """
    cls = type(message)
    codec = _codecs_in_steps.get((cls, version)) or _make_codec_in_steps(cls, version)
    try:
        yield from codec.encode(message, out)
    except (ValueError, TypeError, AttributeError, struct.error) as error:
        plan = (_codecs.get((cls, version)) or _make_codec(cls, version)).plan
        raise ValueError(refusal(plan, message) or f"{plan.name}: {error}") from error


def has_more_elements(message: Message, version: int, count: int) -> bool:
    """Return whether the arrays of `message`, and those inside them, have more than `count` elements.

    Every `BYTES_PER_ELEMENT` bytes of a bytes field count as an element, because they take as long.
    """
    codec = _codecs.get((type(message), version)) or _make_codec(type(message), version)
    return _elements_left(codec.arrays, message, count) < 0


def _elements_left(arrays: _Arrays, value: Struct, left: int) -> int:
    """Return `left` minus the number of elements of `value`; negative if there are more than `left`."""
    for name, inner in arrays:
        items = getattr(value, name)
        if not items:
            continue
        if inner is None:
            left -= len(items) // BYTES_PER_ELEMENT
            continue
        left -= len(items)
        for item in items if inner else ():
            if left < 0:
                return left
            left = _elements_left(inner, item, left)
    return left


def _arrays_of(plan: StructPlan) -> _Arrays:
    """Return the fields that are arrays of structs or strings, with their inner arrays; None for bytes."""
    return tuple(
        (
            field.name,
            None if isinstance(field.kind, Bytes) else _arrays_of(field.struct) if field.struct else (),
        )
        for field in plan.ordinary
        if isinstance(field.kind, Bytes) or (isinstance(field.kind, Array) and field.element_code is None)
    )


def _make_codec(cls: type[Message], version: int) -> _Codec:
    if version not in cls.valid_versions:
        raise ValueError(f"{cls.__name__} has no version {version}")
    plan = plan_struct(cls, version, version in cls.flexible_versions)
    codec = _Codec(compile_encoder(plan), compile_decoder(plan), plan, _arrays_of(plan))
    _codecs[cls, version] = codec
    return codec


def _make_codec_in_steps(cls: type[Message], version: int) -> _CodecInSteps:
    plan = (_codecs.get((cls, version)) or _make_codec(cls, version)).plan
    codec = _CodecInSteps(compile_encoder_in_steps(plan), compile_decoder_in_steps(plan))
    _codecs_in_steps[cls, version] = codec
    return codec
