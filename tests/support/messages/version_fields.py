"""Messages reduced to the fields of a version, so that one request serves every version."""

from __future__ import annotations

from typing import Any, TypeVar

from tests.support.messages.random_messages import declared_fields, inner_struct
from tidelog.protocol.schema import Struct

StructT = TypeVar("StructT", bound=Struct)


def fit_to_version(message: StructT, version: int) -> StructT:
    """Return `message` with defaults in fields that `version` lacks."""
    values: dict[str, Any] = {}
    for field in declared_fields(type(message)):
        value = getattr(message, field.name)
        if version not in field.kind.present:
            continue
        if inner_struct(field.kind) is not None and value is not None:
            value = (
                tuple(fit_to_version(one, version) for one in value)
                if isinstance(value, tuple)
                else fit_to_version(value, version)
            )
        values[field.name] = value
    return type(message)(**values)
