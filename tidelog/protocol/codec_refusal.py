"""The description of the value that a message version cannot express, for the error of a failed encoder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from uuid import UUID

from tidelog.protocol.codec_plan import UUID_CODE, FieldPlan, StructPlan
from tidelog.protocol.codec_runtime import STRING_BYTES_MAX
from tidelog.protocol.schema import HIDDEN, Array, Nested, String

_RANGES: Final = {
    "b": (-0x80, 0x7F),
    "h": (-0x8000, 0x7FFF),
    "H": (0, 0xFFFF),
    "i": (-0x80000000, 0x7FFFFFFF),
    "I": (0, 0xFFFFFFFF),
    "q": (-0x8000000000000000, 0x7FFFFFFFFFFFFFFF),
}
_TYPES: Final[dict[str, type | tuple[type, ...]]] = {"?": bool, "d": (int, float), UUID_CODE: UUID}
_VALUE_CHARACTERS_MAX: Final = 80


class _HiddenValue:
    def __repr__(self) -> str:
        return HIDDEN


_HIDDEN_VALUE: Final = _HiddenValue()


def refusal(plan: StructPlan, message: Any) -> str | None:
    """Return the path, the value and the fault of the first field that `plan` cannot express.

    None if there is no such field.
    """
    for path, value, reason in _faults(plan, message, plan.name):
        text = repr(value)
        if len(text) > _VALUE_CHARACTERS_MAX:
            text = text[:_VALUE_CHARACTERS_MAX] + "..."
        return f"{path} is {text}: {reason} in version {plan.version}"
    return None


def _faults(plan: StructPlan, message: Any, path: str) -> Iterator[tuple[str, Any, str]]:
    """Yield the path, the value and the fault of each field that `plan` cannot express."""
    if not isinstance(message, plan.cls):
        yield path, message, f"not a {plan.name}"
        return
    for field in plan.absent:
        value = getattr(message, field.name)
        if not field.kind.ignorable and value != field.default:
            shown = _HIDDEN_VALUE if field.name in plan.cls.hidden_fields else value
            yield f"{path}.{field.name}", shown, "the field does not exist"
    for field in (*plan.ordinary, *plan.tagged):
        faults = _value_faults(field, getattr(message, field.name), f"{path}.{field.name}")
        if field.name in plan.cls.hidden_fields:
            faults = ((place, _HIDDEN_VALUE, reason) for place, _, reason in faults)
        yield from faults


def _value_faults(field: FieldPlan, value: Any, path: str) -> Iterator[tuple[str, Any, str]]:
    code = field.fixed_code
    if code is not None:
        reason = _fixed_fault(code, value)
        if reason:
            yield path, value, reason
    elif value is None:
        if not field.nullable:
            yield path, value, "cannot be null"
    elif isinstance(field.kind, Nested):
        assert field.struct is not None
        yield from _faults(field.struct, value, path)
    elif isinstance(field.kind, Array):
        yield from _array_faults(field, value, path)
    elif isinstance(field.kind, String):
        reason = _string_fault(value)
        if reason:
            yield path, value, reason
    elif not isinstance(value, bytes | bytearray | memoryview):
        yield path, value, "not bytes"


def _array_faults(field: FieldPlan, values: Any, path: str) -> Iterator[tuple[str, Any, str]]:
    if not isinstance(values, tuple | list):
        yield path, values, "not a sequence"
        return
    for index, value in enumerate(values):
        if field.struct is not None:
            yield from _faults(field.struct, value, f"{path}[{index}]")
        else:
            yield from _value_faults(field.element(), value, f"{path}[{index}]")


def _fixed_fault(code: str, value: Any) -> str | None:
    if code in _TYPES:
        return None if isinstance(value, _TYPES[code]) else "not of the field's type"
    lowest, highest = _RANGES[code]
    if not isinstance(value, int):
        return "not an integer"
    return None if lowest <= value <= highest else f"not within {lowest} to {highest}"


def _string_fault(value: Any) -> str | None:
    if not isinstance(value, str):
        return "not a string"
    try:
        length = len(value.encode())
    except UnicodeEncodeError:
        return "not encodable in UTF-8"
    return None if length <= STRING_BYTES_MAX else f"longer than {STRING_BYTES_MAX} bytes"
