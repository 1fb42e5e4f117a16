"""Schemas of Avro, parsed to types. Pure.

Errors: ValueError for a schema that is not one of Avro.
Source: "Schema Declaration" and "Names" in the specification of Avro 1.12.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tidelog.base.dataclass import dataclass

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


@dataclass(slots=True)
class AvroType:
    """One type.

    `kind` is a primitive, record, enum, array, map, union or fixed. `parts` has the types of the fields or
    branches, or the type of the elements; `names` those of the fields, or the symbols. `size` is that of a
    fixed, `logical` the logical type, `scale` that of a decimal.
    """

    kind: str
    parts: tuple[AvroType, ...] = ()
    names: tuple[str, ...] = ()
    size: int = 0
    logical: str = ""
    scale: int = 0


class AvroSchemas:
    """The named types of a schema and of those that it refers to."""

    def __init__(self) -> None:
        self._named: dict[str, AvroType] = {}

    def parse(self, schema: Any, namespace: str = "") -> AvroType:
        """Return the type of a schema as JSON; names without a dot are in `namespace`."""
        match schema:
            case str():
                return AvroType(schema) if schema in PRIMITIVES else self._reference(schema, namespace)
            case list():
                return AvroType("union", tuple(self.parse(branch, namespace) for branch in schema))
            case {"type": "record" | "error", "fields": list()}:
                return self._record(schema, namespace)
            case {"type": "enum", "symbols": list(symbols)}:
                return self._define(schema, namespace, AvroType("enum", names=tuple(map(str, symbols))))
            case {"type": "fixed", "size": int(size)} if size >= 0:
                return self._define(schema, namespace, _logical(AvroType("fixed", size=size), schema))
            case {"type": "array", "items": items}:
                return AvroType("array", (self.parse(items, namespace),))
            case {"type": "map", "values": values}:
                return AvroType("map", (self.parse(values, namespace),))
            case {"type": str(kind)} if kind in PRIMITIVES:
                return _logical(AvroType(kind), schema)
            case {"type": inner}:
                return self.parse(inner, namespace)
        raise ValueError(f"{str(schema)[:100]!r} is not a schema of Avro")

    def _record(self, schema: Mapping[str, Any], namespace: str) -> AvroType:
        # It is defined before its fields are, which may refer to it.
        record = self._define(schema, namespace, AvroType("record"))
        own_namespace = _full_name(schema, namespace).rpartition(".")[0]
        fields = [field for field in schema["fields"] if isinstance(field, dict)]
        record.names = tuple(str(field.get("name")) for field in fields)
        record.parts = tuple(self.parse(field.get("type"), own_namespace) for field in fields)
        return record

    def _define(self, schema: Mapping[str, Any], namespace: str, defined: AvroType) -> AvroType:
        self._named[_full_name(schema, namespace)] = defined
        return defined

    def _reference(self, name: str, namespace: str) -> AvroType:
        for full_name in (f"{namespace}.{name}" if namespace and "." not in name else name, name):
            if full_name in self._named:
                return self._named[full_name]
        raise ValueError(f"the type {name[:100]!r} is not defined")


def _full_name(schema: Mapping[str, Any], namespace: str) -> str:
    name = str(schema.get("name"))
    if "." in name:
        return name
    own_namespace = schema.get("namespace", namespace)
    return f"{own_namespace}.{name}" if own_namespace else name


def _logical(plain: AvroType, schema: Mapping[str, Any]) -> AvroType:
    plain.logical = str(schema.get("logicalType", ""))
    scale = schema.get("scale", 0)
    plain.scale = scale if type(scale) is int else 0
    return plain
