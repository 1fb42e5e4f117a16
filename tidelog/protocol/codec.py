"""The encoding and decoding of messages that are declared with `tidelog.protocol.schema`.

Encoders and decoders are generated when a class and version is encoded or decoded first
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
from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar

from tidelog.protocol.codec_plan import StructPlan, plan_struct
from tidelog.protocol.codec_refusal import refusal
from tidelog.protocol.decoder_source import Decoder, DecoderInSteps, compile_decoder, compile_decoder_in_steps
from tidelog.protocol.encoder_source import Encoder, EncoderInSteps, compile_encoder, compile_encoder_in_steps
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.primitives import Buffer
from tidelog.protocol.schema import Array, Bytes, Message, Struct
from tidelog.protocol.steps import Steps

M = TypeVar("M", bound=Message)
FunctionT = TypeVar("FunctionT")


_Arrays: TypeAlias = "tuple[tuple[str, _Arrays | None], ...]"


ELEMENTS_MAX: Final = 1_000_000
"""The maximum number of array elements of a message that is decoded in steps."""

BYTES_PER_ELEMENT: Final = 4096
"""The number of bytes of one field that are copied in the time that an element takes."""

_Key: TypeAlias = tuple[type[Message], int]

# By class and version. Each function is compiled for its first message: compiling one takes 1 to 3 ms, and a
# node encodes few of the messages that it decodes.
_plans: dict[_Key, StructPlan] = {}
_arrays: dict[_Key, _Arrays] = {}
_encoders: dict[_Key, Encoder] = {}
_decoders: dict[_Key, Decoder] = {}
_encoders_in_steps: dict[_Key, EncoderInSteps] = {}
_decoders_in_steps: dict[_Key, DecoderInSteps] = {}


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
    key = (type(message), version)
    encoder = _encoders.get(key) or _compiled(_encoders, compile_encoder, key)
    start = len(out)
    try:
        encoder(message, out)
    except (ValueError, TypeError, AttributeError, struct.error) as error:
        del out[start:]
        plan = _plan_of(key)
        raise ValueError(refusal(plan, message) or f"{plan.name}: {error}") from error


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
    key = (cls, version)
    decoder = _decoders.get(key) or _compiled(_decoders, compile_decoder, key)
    size = len(buffer)
    try:
        message, end = decoder(memoryview(buffer), position, size)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise DecodeError(f"{cls.__name__} version {version} in {size} bytes: {error}") from error
    if end > size:
        raise DecodeError(f"{cls.__name__} version {version} ends at {end} of {size} bytes")
    return message, end


def decode_in_steps(cls: type[M], buffer: Buffer, version: int) -> Steps[M]:
    """Return the message at the start of `buffer`, which must not change until the end.

    Errors: DecodeError, also for more than `ELEMENTS_MAX` elements.
    """
    key = (cls, version)
    decoder = _decoders_in_steps.get(key) or _compiled(_decoders_in_steps, compile_decoder_in_steps, key)
    size = len(buffer)
    decoding = decoder(memoryview(buffer), 0, size)
    elements = 0
    while True:
        try:
            elements += next(decoding) or 0
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
    key = (type(message), version)
    encoder = _encoders_in_steps.get(key) or _compiled(_encoders_in_steps, compile_encoder_in_steps, key)
    try:
        yield from encoder(message, out)
    except (ValueError, TypeError, AttributeError, struct.error) as error:
        plan = _plan_of(key)
        raise ValueError(refusal(plan, message) or f"{plan.name}: {error}") from error


def has_more_elements(message: Message, version: int, count: int) -> bool:
    """Return whether the arrays of `message`, and those inside them, have more than `count` elements.

    Every `BYTES_PER_ELEMENT` bytes of a bytes field count as an element, because they take as long.
    """
    key = (type(message), version)
    arrays = _arrays.get(key)
    if arrays is None:
        arrays = _arrays[key] = _arrays_of(_plan_of(key))
    return _elements_left(arrays, message, count) < 0


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


def long_arrays(message: Message, version: int, count: int) -> list[list[Any]]:
    """Return the elements of each array of `message`, also of inner ones, with at least `count` elements.

    The arrays inside the elements of such an array are not returned.
    """
    key = (type(message), version)
    arrays = _arrays.get(key)
    if arrays is None:
        arrays = _arrays[key] = _arrays_of(_plan_of(key))
    found: list[list[Any]] = []
    _find_long_arrays(arrays, message, count, found)
    return found


def _find_long_arrays(arrays: _Arrays, value: Struct, count: int, found: list[list[Any]]) -> None:
    for name, inner in arrays:
        items = getattr(value, name)
        if not items or inner is None:
            continue
        if len(items) >= count:
            found.append(list(items))
            continue
        for item in items if inner else ():
            _find_long_arrays(inner, item, count, found)


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


def _compiled(
    functions: dict[_Key, FunctionT], compiler: Callable[[StructPlan], FunctionT], key: _Key
) -> FunctionT:
    """Compile the function for `key`, and keep it in `functions`."""
    function = functions[key] = compiler(_plan_of(key))
    return function


def _plan_of(key: _Key) -> StructPlan:
    plan = _plans.get(key)
    if plan is None:
        cls, version = key
        if version not in cls.valid_versions:
            raise ValueError(f"{cls.__name__} has no version {version}")
        plan = _plans[key] = plan_struct(cls, version, version in cls.flexible_versions)
    return plan
