"""A broker key as a typed attribute: declared once with name, default, meaning and bounds.

    class ServerKeys:
        num_io_threads = integer("num.io.threads", 8, "Handlers that work on requests.", minimum=1)

Read on a config it is the typed value (`config.num_io_threads` is an int); read on the class it
is the `Key` itself, whose `definition` the admin APIs describe.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Generic, Protocol, TypeVar, cast, overload

from tidelog.base.config_definition import ConfigDefinition, ConfigKind, ConfigValue

V = TypeVar("V")

NO_LIMIT: Final = 2**63 - 1
INT_MAX: Final = 2**31 - 1


class HoldsValues(Protocol):
    """What the keys are read from: parsed values by key name, defaults included."""

    values: Mapping[str, ConfigValue]


class Key(Generic[V]):
    """One key of server.properties."""

    __slots__ = ("definition",)

    def __init__(self, definition: ConfigDefinition) -> None:
        self.definition = definition

    @overload
    def __get__(self, holder: None, owner: type) -> Key[V]: ...

    @overload
    def __get__(self, holder: object, owner: type) -> V: ...

    def __get__(self, holder: object | None, owner: type) -> Key[V] | V:
        if holder is None:
            return self
        return cast(V, cast(HoldsValues, holder).values[self.definition.key])


def _key(kind: ConfigKind, key: str, default: ConfigValue, words: str, limits: Mapping[str, Any]) -> Key[Any]:
    return Key(ConfigDefinition(key=key, kind=kind, default=default, documentation=words, **limits))


def boolean(key: str, default: bool, words: str, **limits: Any) -> Key[bool]:
    """A key that is true or false."""
    return _key(ConfigKind.BOOLEAN, key, default, words, limits)


def integer(key: str, default: int, words: str, **limits: Any) -> Key[int]:
    """A 32-bit number."""
    return _key(ConfigKind.INT, key, default, words, limits)


def short(key: str, default: int, words: str, **limits: Any) -> Key[int]:
    """A 16-bit number."""
    return _key(ConfigKind.SHORT, key, default, words, limits)


def long(key: str, default: int, words: str, **limits: Any) -> Key[int]:
    """A 64-bit number."""
    return _key(ConfigKind.LONG, key, default, words, limits)


def decimal(key: str, default: float, words: str, **limits: Any) -> Key[float]:
    """A number with a fraction."""
    return _key(ConfigKind.DOUBLE, key, default, words, limits)


def text(key: str, default: str, words: str, **limits: Any) -> Key[str]:
    """A text."""
    return _key(ConfigKind.STRING, key, default, words, limits)


def text_list(key: str, default: tuple[str, ...], words: str, **limits: Any) -> Key[tuple[str, ...]]:
    """Texts separated by commas."""
    return _key(ConfigKind.LIST, key, default, words, limits)


def class_name(key: str, default: str, words: str, **limits: Any) -> Key[str]:
    """The name of a class."""
    return _key(ConfigKind.CLASS, key, default, words, limits)


def password(key: str, words: str, **limits: Any) -> Key[str | None]:
    """A text that is never shown; None when not set."""
    return _key(ConfigKind.PASSWORD, key, None, words, limits)


def optional_integer(key: str, words: str, **limits: Any) -> Key[int | None]:
    """A 32-bit number; None when not set."""
    return _key(ConfigKind.INT, key, None, words, limits)


def optional_long(key: str, words: str, **limits: Any) -> Key[int | None]:
    """A 64-bit number; None when not set."""
    return _key(ConfigKind.LONG, key, None, words, limits)


def optional_text(key: str, words: str, **limits: Any) -> Key[str | None]:
    """A text; None when not set."""
    return _key(ConfigKind.STRING, key, None, words, limits)


def optional_text_list(key: str, words: str, **limits: Any) -> Key[tuple[str, ...] | None]:
    """Texts separated by commas; None when not set."""
    return _key(ConfigKind.LIST, key, None, words, limits)


def optional_class_name(key: str, words: str, **limits: Any) -> Key[str | None]:
    """The name of a class; None when not set."""
    return _key(ConfigKind.CLASS, key, None, words, limits)
