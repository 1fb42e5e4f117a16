"""Random messages of any declared class in any version, from a seeded generator.

A `Shape` selects the kind of values: all defaults, all nullable fields null, all arrays empty, all numbers at
one end of their range, or a mixture. A message can be encoded in the requested version: fields that the
version lacks keep their defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import Enum, auto
from functools import lru_cache
from random import Random
from typing import Any, cast, get_type_hints
from uuid import UUID

from tidelog.protocol.schema import (
    ZERO_UUID,
    Array,
    Bool,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Kind,
    Message,
    Nested,
    String,
    Struct,
    UInt16,
    UInt32,
    Uuid,
)


class Shape(Enum):
    """The kind of values in a message.

    NULL has null in every nullable field, NULL_LEAVES only in those without structs. HOLLOW has only empty
    arrays. EMPTY has two structs in each array, one of them hollow, so that there are empty arrays at every
    depth. LONG has arrays of numbers and of texts whose length takes more than one byte.
    """

    DEFAULT = auto()
    NULL = auto()
    NULL_LEAVES = auto()
    HOLLOW = auto()
    EMPTY = auto()
    LOWEST = auto()
    HIGHEST = auto()
    FULL = auto()
    MIXED = auto()
    LONG = auto()


Sampler = Callable[[Random], Any]
Domain = Mapping[tuple[type[Struct], str], Sampler]

RANGES: Mapping[type[Kind], tuple[int, int]] = {
    Int8: (-(2**7), 2**7 - 1),
    Int16: (-(2**15), 2**15 - 1),
    UInt16: (0, 2**16 - 1),
    Int32: (-(2**31), 2**31 - 1),
    UInt32: (0, 2**32 - 1),
    Int64: (-(2**63), 2**63 - 1),
}
TEXTS = ("", "a", "topic-1", "größe", "日本語", "🌊 tide", "\0", "x" * 126, "y" * 127, "z" * 200)
DATA = (b"", b"\0", b"\xff\xfe", bytes(range(256)), b"d" * 126, b"e" * 127)
UUIDS = (ZERO_UUID, UUID(int=1), UUID(int=2**128 - 1), UUID("6c1d2f52-9f0b-4f7e-8f1d-6f6f0c4a1b2c"))
FLOATS = (0.0, -0.0, 1.5, -2.25e300, 5e-324, 1.7976931348623157e308)


@dataclass(frozen=True)
class DeclaredField:
    """One declared field."""

    name: str
    kind: Kind
    default: Any


def declared_fields(cls: type[Struct]) -> tuple[DeclaredField, ...]:
    """Return the fields of `cls` in wire order."""
    return _declared_fields(cast(Any, cls))


@lru_cache(None)
def _declared_fields(cls: Any) -> tuple[DeclaredField, ...]:
    hints = get_type_hints(cls, include_extras=True)
    return tuple(
        DeclaredField(field.name, hints[field.name].__metadata__[0], field.default) for field in fields(cls)
    )


def random_message(
    cls: type[Struct], version: int, random: Random, shape: Shape, domain: Domain | None = None
) -> Any:
    """Return a message of `cls` that `version` can encode; `domain` restricts single fields."""
    return _MessageGenerator(version, random, shape, domain or {}).struct(cls)


def random_messages(
    cls: type[Message], version: int, seed: str, mixed: int = 4, domain: Domain | None = None
) -> list[Any]:
    """Return one message of every shape and some mixtures; the same ones for the same `seed`."""
    random = Random(f"{seed} {cls.__name__} {version}")
    shapes = [*Shape, *[Shape.MIXED] * mixed]
    return [random_message(cls, version, random, shape, domain) for shape in shapes]


def inner_struct(kind: Kind) -> type[Struct] | None:
    """Return the struct in `kind`, single or in an array."""
    inner: type[Struct] | None = getattr(kind, "struct", None) or getattr(kind, "element", None)
    return inner if inner is not None and issubclass(inner, Struct) else None


class _MessageGenerator:
    def __init__(self, version: int, random: Random, shape: Shape, domain: Domain) -> None:
        self.version = version
        self.random = random
        self.shape = shape
        self.domain = domain
        self.is_empty = shape in (Shape.HOLLOW, Shape.EMPTY)

    def struct(self, cls: type[Struct]) -> Any:
        values = {}
        for field in declared_fields(cls):
            if self.version in field.kind.present:
                values[field.name] = self.field(cls, field)
        return cls(**values)

    def field(self, cls: type[Struct], field: DeclaredField) -> Any:
        if self.draws_default():
            return field.default if self.can_be_default(field) else self.value(field.kind)
        if self.version in field.kind.nullable and self.is_null(field.kind):
            return None
        sampler = self.domain.get((cls, field.name))
        return sampler(self.random) if sampler else self.value(field.kind)

    def can_be_default(self, field: DeclaredField) -> bool:
        return field.default is not None or self.version in field.kind.nullable

    def draws_default(self) -> bool:
        return self.shape is Shape.DEFAULT or (self.shape is Shape.MIXED and self.random.random() < 0.15)

    def is_null(self, kind: Kind) -> bool:
        if self.shape is Shape.NULL_LEAVES:
            return inner_struct(kind) is None
        return self.shape is Shape.NULL or (self.shape is Shape.MIXED and self.random.random() < 0.25)

    def count(self) -> int:
        match self.shape:
            case Shape.HOLLOW | Shape.DEFAULT:
                return 0
            case Shape.MIXED:
                return self.random.choice((0, 1, 1, 2, 3))
            case Shape.LONG:
                return self.random.choice((1, 1, 2))
            case _:
                return 1

    def value(self, kind: Kind) -> Any:
        random = self.random
        match kind:
            case Nested():
                return self.struct(kind.struct)
            case Array():
                return self.array(kind)
            case Bool():
                return self.shape is Shape.HIGHEST or random.random() < 0.5
            case Uuid():
                return random.choice(UUIDS)
            case Float64():
                return random.choice(FLOATS)
            case String():
                return "" if self.is_empty else random.choice(TEXTS)
            case Bytes():
                return b"" if self.is_empty else random.choice(DATA)
        return self.number(*RANGES[type(kind)])

    def number(self, lowest: int, highest: int) -> int:
        match self.shape:
            case Shape.LOWEST:
                return lowest
            case Shape.HIGHEST:
                return highest
        return self.random.choice(
            (lowest, highest, 0, 1, max(lowest, -1), self.random.randint(lowest, highest))
        )

    def array(self, kind: Array) -> tuple[Any, ...]:
        element = kind.element
        if issubclass(element, Struct):
            if self.shape is Shape.EMPTY:
                hollow = _MessageGenerator(self.version, self.random, Shape.HOLLOW, self.domain)
                return (hollow.struct(element), self.struct(element))
            return tuple(self.struct(element) for _ in range(self.count()))
        if self.is_empty:
            return ()
        count = self.random.choice((127, 130, 300)) if self.shape is Shape.LONG else self.count()
        plain = element("0+")
        return tuple(self.value(plain) for _ in range(count))
