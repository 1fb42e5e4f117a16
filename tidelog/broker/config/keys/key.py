"""Broker keys as typed attributes, each declared once with name, default, documentation and bounds.

    class ServerKeys:
        num_io_threads = integer("num.io.threads", 8, "Handlers that process requests.", minimum=1)

On a config the attribute is the typed value (`config.num_io_threads` is an int). On the class it is the
`Key`, whose `definition` the admin APIs describe.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Generic, Protocol, TypeVar, cast, overload

from tidelog.base.config_definition import ConfigDefinition, ConfigKind, ConfigValue
from tidelog.cluster.group_configs import GROUP_CONFIGS
from tidelog.storage.config.topic_configs import TOPIC_CONFIGS

ValueT = TypeVar("ValueT")

NO_LIMIT: Final = 2**63 - 1
INT_MAX: Final = 2**31 - 1


class ParsedConfig(Protocol):
    """A config from which keys are read; `values` has the parsed values by key, defaults included."""

    values: Mapping[str, ConfigValue]


class Key(Generic[ValueT]):
    """One key of server.properties."""

    __slots__ = ("definition",)

    def __init__(self, definition: ConfigDefinition) -> None:
        self.definition = definition

    @overload
    def __get__(self, config: None, owner: type) -> Key[ValueT]: ...

    @overload
    def __get__(self, config: object, owner: type) -> ValueT: ...

    def __get__(self, config: object | None, owner: type) -> Key[ValueT] | ValueT:
        if config is None:
            return self
        return cast(ValueT, cast(ParsedConfig, config).values[self.definition.key])


def _key(
    kind: ConfigKind, key: str, default: ConfigValue, documentation: str, limits: Mapping[str, Any]
) -> Key[Any]:
    return Key(ConfigDefinition(key=key, kind=kind, default=default, documentation=documentation, **limits))


def topic_default(key: str) -> Any:
    """Return the default of the topic config `key`, which a broker key overrides for all topics."""
    return TOPIC_CONFIGS[key].default


def group_default(key: str) -> Any:
    """Return the default of the group config `key`, which a broker key overrides for all groups."""
    return GROUP_CONFIGS[key].default


def boolean(key: str, default: bool, documentation: str, **limits: Any) -> Key[bool]:
    """Return a key whose value is true or false."""
    return _key(ConfigKind.BOOLEAN, key, default, documentation, limits)


def integer(key: str, default: int, documentation: str, **limits: Any) -> Key[int]:
    """Return a key whose value is a 32-bit number."""
    return _key(ConfigKind.INT, key, default, documentation, limits)


def short(key: str, default: int, documentation: str, **limits: Any) -> Key[int]:
    """Return a key whose value is a 16-bit number."""
    return _key(ConfigKind.SHORT, key, default, documentation, limits)


def long(key: str, default: int, documentation: str, **limits: Any) -> Key[int]:
    """Return a key whose value is a 64-bit number."""
    return _key(ConfigKind.LONG, key, default, documentation, limits)


def decimal(key: str, default: float, documentation: str, **limits: Any) -> Key[float]:
    """Return a key whose value is a floating-point number."""
    return _key(ConfigKind.DOUBLE, key, default, documentation, limits)


def text(key: str, default: str, documentation: str, **limits: Any) -> Key[str]:
    """Return a key whose value is a text."""
    return _key(ConfigKind.STRING, key, default, documentation, limits)


def text_list(key: str, default: tuple[str, ...], documentation: str, **limits: Any) -> Key[tuple[str, ...]]:
    """Return a key whose value is a list of texts, separated by commas."""
    return _key(ConfigKind.LIST, key, default, documentation, limits)


def class_name(key: str, default: str, documentation: str, **limits: Any) -> Key[str]:
    """Return a key whose value is the name of a class."""
    return _key(ConfigKind.CLASS, key, default, documentation, limits)


def password(key: str, documentation: str, **limits: Any) -> Key[str | None]:
    """Return a key whose value is a secret text, which is never shown; None if it is not set."""
    return _key(ConfigKind.PASSWORD, key, None, documentation, limits)


def optional_integer(key: str, documentation: str, **limits: Any) -> Key[int | None]:
    """Return a key whose value is a 32-bit number; None if it is not set."""
    return _key(ConfigKind.INT, key, None, documentation, limits)


def optional_long(key: str, documentation: str, **limits: Any) -> Key[int | None]:
    """Return a key whose value is a 64-bit number; None if it is not set."""
    return _key(ConfigKind.LONG, key, None, documentation, limits)


def optional_text(key: str, documentation: str, **limits: Any) -> Key[str | None]:
    """Return a key whose value is a text; None if it is not set."""
    return _key(ConfigKind.STRING, key, None, documentation, limits)


def optional_text_list(key: str, documentation: str, **limits: Any) -> Key[tuple[str, ...] | None]:
    """Return a key whose value is a list of texts, separated by commas; None if it is not set."""
    return _key(ConfigKind.LIST, key, None, documentation, limits)


def optional_class_name(key: str, documentation: str, **limits: Any) -> Key[str | None]:
    """Return a key whose value is the name of a class; None if it is not set."""
    return _key(ConfigKind.CLASS, key, None, documentation, limits)
