"""Declarations of messages: one annotation per field, in Kafka's notation of versions.

A message is a class with the decorator `@message`, which makes it a frozen dataclass. Its fields are
`Annotated[python_type, kind]`. The annotation defines the format of the field on the wire and the versions in
which it exists:

    topic_id: Annotated[UUID, Uuid("10+", ignorable=True)] = ZERO_UUID
    name: Annotated[str | None, String("0+", nullable="10+")] = ""

Every field has Kafka's default, which a decoder also sets for a version that lacks the field.
`tidelog.protocol.codec` compiles the declarations to encoders and decoders.

Source: Apache Kafka 4.3 message definitions (common/message), and their README.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, FrozenInstanceError, fields
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, dataclass_transform
from uuid import UUID

from tidelog.base.dataclass import compile_constructor, dataclass

ZERO_UUID: Final = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Versions:
    """An inclusive range of versions.

    If `highest` is None, the range has no end. If `lowest` is greater than `highest`, it is empty.
    """

    lowest: int
    highest: int | None

    def __contains__(self, version: int) -> bool:
        return self.lowest <= version and (self.highest is None or version <= self.highest)


@cache
def versions(text: str) -> Versions:
    """Return the range for Kafka's notation: "3+", "0-7", "5" or "none".

    Errors: ValueError for any other text.
    """
    if text == "none":
        return Versions(0, -1)
    if text.endswith("+"):
        return Versions(int(text[:-1]), None)
    lowest, dash, highest = text.partition("-")
    return Versions(int(lowest), int(highest if dash else lowest))


class Kind:
    """The type of a field on the wire, and the versions in which it is present.

    `present`, `nullable`, `tagged` and `flexible` are ranges of versions. `tag` is the number of a tagged
    field, or None. If `ignorable`, encoding a version that lacks the field drops its value; otherwise a value
    other than the default is an error.
    """

    __slots__ = ("flexible", "ignorable", "nullable", "present", "tag", "tagged")

    def __init__(
        self,
        present: str,
        *,
        nullable: str = "none",
        tag: int | None = None,
        tagged: str = "none",
        ignorable: bool = False,
        flexible: str | None = None,
    ) -> None:
        self.present = versions(present)
        self.nullable = versions(nullable)
        self.tag = tag
        self.tagged = versions(tagged)
        self.ignorable = ignorable
        self.flexible = None if flexible is None else versions(flexible)


class Bool(Kind):
    """One byte, 0 or 1."""

    __slots__ = ()


class Int8(Kind):
    """Signed byte."""

    __slots__ = ()


class Int16(Kind):
    """Signed 16-bit integer, big endian."""

    __slots__ = ()


class UInt16(Kind):
    """Unsigned 16-bit integer, big endian."""

    __slots__ = ()


class Int32(Kind):
    """Signed 32-bit integer, big endian."""

    __slots__ = ()


class UInt32(Kind):
    """Unsigned 32-bit integer, big endian."""

    __slots__ = ()


class Int64(Kind):
    """Signed 64-bit integer, big endian."""

    __slots__ = ()


class Float64(Kind):
    """IEEE 754 double, big endian."""

    __slots__ = ()


class Uuid(Kind):
    """16 bytes, big endian; ZERO_UUID means that there is no id."""

    __slots__ = ()


class String(Kind):
    """UTF-8 text after an int16 length, or in flexible versions after an unsigned varint of length + 1."""

    __slots__ = ()


class Bytes(Kind):
    """Bytes after an int32 length, or in flexible versions after an unsigned varint of length + 1."""

    __slots__ = ()


class Records(Bytes):
    """Record batches, which the message codec does not read; decoded as a view of the input."""

    __slots__ = ()


class Nested(Kind):
    """A struct inside a struct."""

    __slots__ = ("struct",)

    def __init__(
        self,
        struct: type[Struct],
        present: str,
        *,
        nullable: str = "none",
        tag: int | None = None,
        tagged: str = "none",
        ignorable: bool = False,
    ) -> None:
        super().__init__(present, nullable=nullable, tag=tag, tagged=tagged, ignorable=ignorable)
        self.struct = struct


class Array(Kind):
    """A sequence of structs or of plain kinds; decoded as a tuple."""

    __slots__ = ("element",)

    def __init__(
        self,
        element: type[Struct] | type[Kind],
        present: str,
        *,
        nullable: str = "none",
        tag: int | None = None,
        tagged: str = "none",
        ignorable: bool = False,
    ) -> None:
        super().__init__(present, nullable=nullable, tag=tag, tagged=tagged, ignorable=ignorable)
        self.element = element


HIDDEN: Final = "[hidden]"
"""Replaces the value of a hidden field in texts."""


class Struct:
    """The base class of every declared struct, whose fields are those of a dataclass.

    Equality, hash, text, pickling and immutability are implemented here, because `dataclass` would compile
    them for each of some 500 classes, which takes a third of a second. The constructor of a class is compiled
    when its first instance is created.
    """

    __slots__: ClassVar[tuple[str, ...]] = ()

    hidden_fields: ClassVar[frozenset[str]] = frozenset()
    """The fields with secrets, whose values are neither in the representation nor in errors."""

    def __init__(self, **values: Any) -> None:
        cls = type(self)
        for field in fields(cls):  # type: ignore[arg-type]
            assert field.default is not MISSING, f"{cls.__name__}.{field.name} has no default"
        setattr(cls, "__init__", compile_constructor(cls, is_frozen=True))  # noqa: B010 - see mypy
        cls.__init__(self, **values)

    def _values(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self.__slots__])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Struct) or other.__class__ is not self.__class__:
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        hidden = self.hidden_fields
        values = ", ".join(
            [f"{name}={HIDDEN if name in hidden else repr(getattr(self, name))}" for name in self.__slots__]
        )
        return f"{type(self).__qualname__}({values})"

    if not TYPE_CHECKING:  # with these methods, type checkers would allow setting unknown attributes

        def __setattr__(self, name, value):
            raise FrozenInstanceError(f"cannot assign to field {name!r}")

        def __delattr__(self, name):
            raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __getstate__(self) -> tuple[Any, ...]:
        return self._values()

    def __setstate__(self, values: tuple[Any, ...]) -> None:
        for name, value in zip(self.__slots__, values, strict=True):
            object.__setattr__(self, name, value)


S = TypeVar("S", bound=Struct)


@dataclass_transform(frozen_default=True, kw_only_default=True)
def message(cls: type[S]) -> type[S]:
    """Make `cls` a frozen dataclass with slots and keyword arguments.

    `fields`, `replace` and `asdict` of `dataclasses` support it. `Struct` implements the other methods of a
    dataclass.
    """
    declare = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True, kw_only=True)
    return declare(cls)


class Message(Struct):
    """The base class of messages, with the versions that exist and those that are flexible (KIP-482)."""

    __slots__ = ()

    valid_versions: ClassVar[Versions]
    flexible_versions: ClassVar[Versions]


class ApiMessage(Message):
    """A request or a response of one API."""

    __slots__ = ()

    api_key: ClassVar[int]


class MetadataRecord(Message):
    """A record of the cluster metadata log."""

    __slots__ = ()

    record_type: ClassVar[int]


class RemoteMetadataRecord(Message):
    """A record of `__remote_log_metadata`."""

    __slots__ = ()

    record_type: ClassVar[int]
