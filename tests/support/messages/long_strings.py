"""Messages with the same text in every string, at any depth."""

from __future__ import annotations

from typing import Any, Final

from tests.support.messages.random_messages import declared_fields, inner_struct
from tidelog.protocol.schema import Array, Kind, Nested, String, Struct

STRING_BYTES_MAX: Final = "s" * 32_767


def with_strings(cls: type[Struct], version: int, text: str) -> Any:
    """Return a message with one element in every array and `text` in every string."""
    values: dict[str, Any] = {}
    for field in declared_fields(cls):
        if version in field.kind.present:
            values[field.name] = _value(field.kind, field.default, version, text)
    return cls(**values)


def _value(kind: Kind, default: Any, version: int, text: str) -> Any:
    if isinstance(kind, String):
        return text
    if isinstance(kind, Array):
        element = kind.element
        if issubclass(element, Struct):
            return (with_strings(element, version, text),)
        return (text,) if issubclass(element, String) else ()
    if isinstance(kind, Nested):
        inner = inner_struct(kind)
        return default if inner is None else with_strings(inner, version, text)
    return default
