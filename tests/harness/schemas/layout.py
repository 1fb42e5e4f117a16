"""The wire layout of one message in one version, from a JSON definition or from our declaration.

A layout is a tuple of fields in wire order, tagged fields last by tag. Two definitions of a message
are compatible in a version if their layouts are equal.

Source: the README of Apache Kafka's message definitions (common/message).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

from tidelog.protocol.schema import Array, Kind, Message, Nested, Struct, Versions, versions

_COMMENT: Final = re.compile(r"^\s*//.*$", re.MULTILINE)
_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ZERO: Final = {
    "": "",
    "bool": "False",
    "float64": "0.0",
    "uuid": "zero",
    "string": "''",
    "bytes": "b''",
    "records": "null",
}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a layout; `fields` is the layout of a struct or of an array's elements."""

    name: str
    type: str
    nullable: bool
    tag: int | None
    default: str
    fields: tuple[Field, ...] = ()

    def __str__(self) -> str:
        marks = [
            self.type,
            *(["nullable"] if self.nullable else []),
            *([] if self.tag is None else [f"tag {self.tag}"]),
        ]
        return f"{self.name}: {' '.join(marks)}, default {self.default}"


Layout = tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Definition:
    """One message of Kafka's JSON definitions."""

    name: str
    key: int | None
    valid: Versions
    flexible: Versions
    _fields: tuple[dict[str, Any], ...]
    _structs: dict[str, list[dict[str, Any]]]

    @classmethod
    def read(cls, path: Path) -> Definition:
        """Read a definition; raise ValueError with the file's name if it is not one."""
        try:
            text = json.loads(_COMMENT.sub("", path.read_text()))
            return cls(
                name=text["name"],
                key=text.get("apiKey"),
                valid=versions(text["validVersions"]),
                flexible=versions(text.get("flexibleVersions", "none")),
                _fields=tuple(text["fields"]),
                _structs={struct["name"]: struct["fields"] for struct in text.get("commonStructs", [])},
            )
        except (KeyError, ValueError) as error:
            raise ValueError(f"{path.name} is not a message definition: {error}") from error

    def layout(self, version: int) -> Layout:
        """Return the wire layout in `version`."""
        return self._layout(self._fields, version)

    def _layout(self, declared: Any, version: int) -> Layout:
        present = [field for field in declared if version in versions(field["versions"])]
        return _in_wire_order([self._field(field, version) for field in present])

    def _field(self, field: dict[str, Any], version: int) -> Field:
        is_array = field["type"].startswith("[]")
        element = field["type"].removeprefix("[]")
        inner = field.get("fields") or self._structs.get(element, [])
        kind = "struct" if element[0].isupper() else element
        return Field(
            name=_snake(field["name"]),
            type=f"[]{kind}" if is_array else kind,
            nullable=version in versions(field.get("nullableVersions", "none")),
            tag=field["tag"] if version in versions(field.get("taggedVersions", "none")) else None,
            default=_json_default(field, kind, is_array),
            fields=self._layout(inner, version),
        )


def our_layout(message: type[Struct], version: int) -> Layout:
    """Return the wire layout of our declaration of `message` in `version`."""
    hints = get_type_hints(message, include_extras=True)
    layout_fields = []
    for field in fields(message):  # type: ignore[arg-type]
        hint = hints[field.name]
        kind = get_args(hint)[1] if get_origin(hint) is Annotated else None
        if isinstance(kind, Kind) and version in kind.present:
            layout_fields.append(_our_field(field.name, field.default, kind, version))
    return _in_wire_order(layout_fields)


def flexible_in(message: type[Message], version: int) -> bool:
    """Return whether our declaration of `message` has tagged fields in `version` (KIP-482)."""
    return version in message.flexible_versions


def _our_field(name: str, default: object, kind: Kind, version: int) -> Field:
    inner: Layout = ()
    if isinstance(kind, Array):
        is_struct = issubclass(kind.element, Struct)
        text = "[]struct" if is_struct else f"[]{kind.element.__name__.lower()}"
        inner = our_layout(kind.element, version) if issubclass(kind.element, Struct) else ()
    elif isinstance(kind, Nested):
        text, inner = "struct", our_layout(kind.struct, version)
    else:
        text = type(kind).__name__.lower()
    return Field(
        name=name,
        type=text,
        nullable=version in kind.nullable,
        tag=kind.tag if version in kind.tagged else None,
        default=_our_default(default, text),
        fields=inner,
    )


def _in_wire_order(layout_fields: list[Field]) -> Layout:
    untagged = [field for field in layout_fields if field.tag is None]
    tagged = sorted(
        (field for field in layout_fields if field.tag is not None), key=lambda field: field.tag or 0
    )
    return (*untagged, *tagged)


def _snake(name: str) -> str:
    return _WORD.sub("_", name).lower()


def _json_default(field: dict[str, Any], kind: str, is_array: bool) -> str:
    json_value = field.get("default")
    if json_value == "null":
        return "null"
    if is_array or kind == "struct":
        return "empty"
    if json_value in (None, ""):
        return _ZERO.get(kind, "0")
    if kind == "string":
        return repr(json_value)
    if kind == "bool":
        return str(str(json_value).lower() == "true")
    return str(float(json_value)) if kind == "float64" else str(int(str(json_value), 0))


def _our_default(default: object, kind: str) -> str:
    if default is None:
        return "null"
    if kind.startswith("[]") or kind == "struct":
        return "empty"
    if kind == "uuid":
        return "zero"
    return repr(default)
