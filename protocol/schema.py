"""How a message declares its fields: one annotation per field, in Kafka's version notation.

A message is a frozen dataclass whose fields are `Annotated[python_type, kind]`. The
annotation says how the field looks on the wire and in which versions it exists:

    topic_id: Annotated[UUID, Uuid("10+", ignorable=True)] = ZERO_UUID
    name: Annotated[str | None, String("0+", nullable="10+")] = ""

Every field has Kafka's default, which is also what decoding yields for a version that lacks
the field. `protocol.codec` compiles these declarations; nothing here reads or writes bytes.

Source: Apache Kafka 4.3 message definitions (common/message), and their README.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Final
from uuid import UUID

ZERO_UUID: Final = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Versions:
    """An inclusive range of versions; `highest` None means open-ended, lowest > highest means none."""

    lowest: int
    highest: int | None

    def __contains__(self, version: int) -> bool:
        return self.lowest <= version and (self.highest is None or version <= self.highest)


@cache
def versions(text: str) -> Versions:
    """Parse Kafka's notation: "3+", "0-7", "5" or "none"; ValueError for anything else."""
    if text == "none":
        return Versions(0, -1)
    if text.endswith("+"):
        return Versions(int(text[:-1]), None)
    lowest, dash, highest = text.partition("-")
    return Versions(int(lowest), int(highest if dash else lowest))


class Kind:
    """A field's wire type together with the versions in which it is present.

    `present`, `nullable`, `tagged`, `flexible`: version ranges; `tag`: number of a tagged
    field or None; `ignorable`: a value set for a version that lacks the field is dropped
    silently instead of refused.
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
    """16 bytes, most significant first; all zero stands for "none"."""

    __slots__ = ()


class String(Kind):
    """UTF-8 text behind an int16 length, or behind an unsigned varint of length + 1 when flexible."""

    __slots__ = ()


class Bytes(Kind):
    """Opaque bytes behind an int32 length, or behind an unsigned varint of length + 1 when flexible."""

    __slots__ = ()


class Records(Bytes):
    """Record batches, opaque to the message codec; decoded as a view of the input."""

    __slots__ = ()


class Nested(Kind):
    """One struct in place."""

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


class Struct:
    """Base of every declared struct; fields are the dataclass fields of the subclass."""

    __slots__ = ()


class Message(Struct):
    """Base of top-level messages: the versions that exist and those that are flexible (KIP-482)."""

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
