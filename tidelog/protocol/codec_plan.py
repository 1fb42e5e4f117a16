"""The fields of a struct in one version, resolved from its declaration with `tidelog.protocol.schema`.

Compilers read plans instead of declarations. A plan lists absent, ordinary and tagged fields separately, and
says whether each field is nullable or compact. The minimum size of every field and struct is known, so that a
decoder can compare a count with the remaining bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final, get_type_hints

from tidelog.base.dataclass import dataclass
from tidelog.protocol.schema import (
    Array,
    Bool,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Kind,
    Nested,
    Records,
    String,
    Struct,
    UInt16,
    UInt32,
    Uuid,
)

UUID_CODE: Final = "16s"

FIXED_CODES: Final[dict[type[Kind], str]] = {
    Bool: "?",
    Int8: "b",
    Int16: "h",
    UInt16: "H",
    Int32: "i",
    UInt32: "I",
    Int64: "q",
    Float64: "d",
    Uuid: UUID_CODE,
}
"""The struct codes of the kinds of fixed width."""

FIXED_BYTES: Final[dict[str, int]] = {
    "?": 1,
    "b": 1,
    "B": 1,
    "h": 2,
    "H": 2,
    "i": 4,
    "I": 4,
    "q": 8,
    "d": 8,
    UUID_CODE: 16,
}
"""The width of each code that occurs in a layout."""


@dataclass(frozen=True, slots=True)
class FieldPlan:
    """One field in one version; `struct` is the plan of a nested struct or of an array's elements."""

    name: str
    kind: Kind
    default: Any
    nullable: bool
    compact: bool
    struct: StructPlan | None

    @property
    def fixed_code(self) -> str | None:
        """The struct code of a field of fixed width, None for others."""
        return FIXED_CODES.get(type(self.kind))

    @property
    def element_code(self) -> str | None:
        """The struct code of the elements of an array if they have a fixed width, else None."""
        return FIXED_CODES.get(self.kind.element) if isinstance(self.kind, Array) else None  # type: ignore[arg-type]

    @property
    def is_copied(self) -> bool:
        """Whether a decoder copies bytes of this field; records are a view of the buffer."""
        return isinstance(self.kind, Bytes) and not isinstance(self.kind, Records)

    @property
    def prefix_code(self) -> str:
        """The struct code of the prefix of a field of variable width; "B" starts an unsigned varint."""
        if isinstance(self.kind, Nested):
            return "b"
        if self.compact:
            return "B"
        return "h" if isinstance(self.kind, String) else "i"

    @property
    def least_bytes(self) -> int:
        """The minimum number of bytes of a value."""
        if self.fixed_code is not None:
            return FIXED_BYTES[self.fixed_code]
        if self.struct is not None and isinstance(self.kind, Nested) and not self.nullable:
            return self.struct.least_bytes
        return FIXED_BYTES[self.prefix_code]

    @property
    def least_element_bytes(self) -> int:
        """The minimum number of bytes of an element; at least 1, so that every count is bounded."""
        if self.struct is not None:
            return max(1, self.struct.least_bytes)
        if self.element_code is not None:
            return FIXED_BYTES[self.element_code]
        return FIXED_BYTES[self.element().prefix_code]

    def element(self) -> FieldPlan:
        """Return the plan of one element of an array of plain kinds; elements are never null."""
        assert isinstance(self.kind, Array) and issubclass(self.kind.element, Kind)
        return FieldPlan(self.name, self.kind.element("0+"), None, False, self.compact, None)


@dataclass(frozen=True, slots=True)
class StructPlan:
    """One struct in one version; `tagged` is in the order of the tags."""

    cls: type[Struct]
    version: int
    flexible: bool
    ordinary: tuple[FieldPlan, ...]
    tagged: tuple[FieldPlan, ...]
    absent: tuple[FieldPlan, ...]

    @property
    def least_bytes(self) -> int:
        """The minimum number of bytes of a value."""
        return sum(field.least_bytes for field in self.ordinary) + self.flexible

    @property
    def has_steps(self) -> bool:
        """Whether this struct, or one inside it, has an array or bytes, and is coded in steps."""
        return any(
            isinstance(field.kind, Array)
            or field.is_copied
            or (field.struct is not None and field.struct.has_steps)
            for field in (*self.ordinary, *self.tagged)
        )

    @property
    def name(self) -> str:
        """The name of the class."""
        return self.cls.__name__

    def nested(self) -> list[StructPlan]:
        """Return the plans of the distinct structs inside this one, innermost first, and this one last."""
        plans: dict[type[Struct], StructPlan] = {}
        for field in (*self.ordinary, *self.tagged):
            if field.struct is not None:
                plans |= {plan.cls: plan for plan in field.struct.nested()}
        return [*plans.values(), self]


_kinds: dict[type[Struct], Mapping[str, Kind]] = {}


def plan_struct(cls: type[Struct], version: int, flexible: bool) -> StructPlan:
    """Return the plan of `cls` and of all structs in it for `version`."""
    kinds = _kinds_of(cls)
    ordinary: list[FieldPlan] = []
    tagged: list[tuple[int, FieldPlan]] = []
    absent: list[FieldPlan] = []
    for field in fields(cls):  # type: ignore[arg-type]
        kind = kinds[field.name]
        plan = _plan_field(field.name, kind, field.default, version, flexible)
        if version not in kind.present:
            absent.append(plan)
        elif flexible and version in kind.tagged:
            assert kind.tag is not None, f"{cls.__name__}.{field.name} is tagged without a tag"
            tagged.append((kind.tag, plan))
        else:
            ordinary.append(plan)
    in_tag_order = tuple(plan for _, plan in sorted(tagged, key=lambda entry: entry[0]))
    return StructPlan(cls, version, flexible, tuple(ordinary), in_tag_order, tuple(absent))


def _kinds_of(cls: type[Struct]) -> Mapping[str, Kind]:
    """Return the kinds of the fields by name, for all versions: reading the annotations takes long."""
    kinds = _kinds.get(cls)
    if kinds is None:
        hints = get_type_hints(cls, include_extras=True)
        declared = fields(cls)  # type: ignore[arg-type]
        kinds = _kinds[cls] = {field.name: hints[field.name].__metadata__[0] for field in declared}
    return kinds


def _plan_field(name: str, kind: Kind, default: Any, version: int, flexible: bool) -> FieldPlan:
    struct: StructPlan | None = None
    if version in kind.present:
        if isinstance(kind, Nested):
            struct = plan_struct(kind.struct, version, flexible)
        elif isinstance(kind, Array) and issubclass(kind.element, Struct):
            struct = plan_struct(kind.element, version, flexible)
    compact = flexible if kind.flexible is None else version in kind.flexible
    return FieldPlan(name, kind, default, version in kind.nullable, compact, struct)
