"""The search of a response for an error code, at its top level and in its items."""

from __future__ import annotations

from dataclasses import fields
from typing import Final

from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.schema import Struct
from tidelog.protocol.steps import Steps

_fields_of: Final[dict[type[Struct], tuple[tuple[str, ...], tuple[str, ...]]]] = {}


def contains_error(response: Struct, code: ErrorCode) -> Steps[bool]:
    """Return whether an error code in `response`, at any depth, is `code`; a step per struct."""
    yield None
    codes, others = _fields(type(response))
    if any(getattr(response, name) == code for name in codes):
        return True
    for name in others:
        value = getattr(response, name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Struct) and (yield from contains_error(item, code)):
                return True
    return False


def _fields(owner: type[Struct]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the fields with error codes, and the names of all other fields."""
    field_names = _fields_of.get(owner)
    if field_names is None:
        names = [each.name for each in fields(owner)]  # type: ignore[arg-type]
        codes = tuple(name for name in names if name.endswith("error_code"))
        field_names = _fields_of[owner] = (codes, tuple(name for name in names if name not in codes))
    return field_names
