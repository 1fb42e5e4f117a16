"""Definitions of configuration keys: type, default, bounds, synonyms and documentation.

Topic, group and broker configs are tables of `ConfigDefinition`. Parsing a text returns a typed value or
raises `ConfigError`, whose message is one line with the key, the value and the allowed values.

Source: org.apache.kafka.common.config.ConfigDef of Apache Kafka 4.3 (conversion of texts).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from tidelog.base.dataclass import dataclass
from tidelog.base.similar_names import did_you_mean

ConfigValue: TypeAlias = "bool | int | float | str | tuple[str, ...] | None"
"""A parsed value; a list is a tuple of texts, None means "not set"."""


class ConfigKind(IntEnum):
    """The type of a value; the numbers are those of DescribeConfigs responses."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


_RANGES: Final[Mapping[ConfigKind, tuple[int, int]]] = {
    ConfigKind.SHORT: (-(2**15), 2**15 - 1),
    ConfigKind.INT: (-(2**31), 2**31 - 1),
    ConfigKind.LONG: (-(2**63), 2**63 - 1),
}

_NOUNS: Final[Mapping[ConfigKind, str]] = {
    ConfigKind.SHORT: "a 16-bit number",
    ConfigKind.INT: "a 32-bit number",
    ConfigKind.LONG: "a 64-bit number",
    ConfigKind.DOUBLE: "a decimal number",
}

HIDDEN_VALUE: Final = "[hidden]"


class ConfigError(ValueError):
    """A configuration value that is not allowed.

    The text is one line with the key, the value and what is allowed. A `value` of None is a missing one.
    """

    def __init__(self, key: str, value: object, allowed: str) -> None:
        if value is None:
            text = f"Missing configuration value: {key}; {allowed}"
        else:
            text = f"Invalid configuration value: {key}={_printable(value)}; {allowed}"
        super().__init__(text)
        self.key = key
        self.value = value
        self.allowed = allowed


def _printable(value: object) -> str:
    """Return the text of `value` on one line; characters that are not printable are escaped."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in str(value))


class Synonym(NamedTuple):
    """A broker key whose value is the default of a topic key.

    `factor` converts the unit of the broker key to that of the topic key.
    """

    key: str
    factor: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigDefinition:
    """One key of a config table.

    The bounds `minimum` and `maximum` are inclusive; `extra_values` are allowed outside them (a gzip level of
    -1). `valid_values` limits a text, or each item of a list. `check` returns None if the parsed value is
    allowed, else a phrase with the values that are. `required` means that there is no default. `internal`
    keys are Kafka's keys for tests: they are accepted and never listed.
    """

    key: str
    kind: ConfigKind
    default: ConfigValue = None
    documentation: str = ""
    minimum: float | None = None
    maximum: float | None = None
    extra_values: tuple[int, ...] = ()
    valid_values: tuple[str, ...] = ()
    ignore_case: bool = False
    non_empty: bool = False
    check: Callable[[ConfigValue], str | None] | None = None
    synonyms: tuple[Synonym, ...] = ()
    required: bool = False
    internal: bool = False

    @property
    def is_sensitive(self) -> bool:
        """Whether the value must never be shown."""
        return self.kind is ConfigKind.PASSWORD

    @property
    def field_name(self) -> str:
        """The key as an attribute name: `retention.ms` -> `retention_ms`."""
        return self.key.replace(".", "_")

    @property
    def default_text(self) -> str | None:
        """The default as Kafka prints it; None if there is none."""
        return value_text(self.default)

    @property
    def allowed(self) -> str:
        """A phrase for error messages with the allowed values."""
        if self.valid_values:
            values = ", ".join(self.valid_values)
            return (
                f"allowed is a list of: {values}"
                if self.kind is ConfigKind.LIST
                else f"allowed is one of: {values}"
            )
        if self.kind is ConfigKind.BOOLEAN:
            return "allowed is true or false"
        noun = _NOUNS.get(self.kind)
        if noun is None:
            return "allowed is a text that is not empty" if self.non_empty else "allowed is a text"
        return f"allowed is {noun}{self._bounds_text()}"

    def _bounds_text(self) -> str:
        also = "".join(f" or {value}" for value in self.extra_values)
        if self.minimum is not None and self.maximum is not None:
            return f" from {self.minimum} to {self.maximum}{also}"
        if self.minimum is not None:
            return f" of at least {self.minimum}{also}"
        return ""

    def parse(self, text: str) -> ConfigValue:
        """Return the typed value of `text`; surrounding blanks are ignored.

        Errors: ConfigError for a value that is not allowed.
        """
        if self.kind is ConfigKind.PASSWORD:
            return text
        value = self._convert(text.strip())
        self._validate(value, text)
        return value

    def shown_text(self, text: str | None) -> str | None:
        """Return `text` for logs and errors, or HIDDEN_VALUE if it may be a secret."""
        return HIDDEN_VALUE if self.is_sensitive and text is not None else text

    def _convert(self, text: str) -> ConfigValue:
        if self.kind in _RANGES:
            return self._integer(text)
        if self.kind is ConfigKind.BOOLEAN:
            lowered = text.lower()
            if lowered not in ("true", "false"):
                raise ConfigError(self.key, text, self.allowed)
            return lowered == "true"
        if self.kind is ConfigKind.DOUBLE:
            return self._decimal(text)
        if self.kind is ConfigKind.LIST:
            return split_list(text)
        return text

    def _integer(self, text: str) -> int:
        digits = text[1:] if text[:1] in ("+", "-") else text
        if not (digits.isascii() and digits.isdigit()) or len(digits) > 20:
            raise ConfigError(self.key, text, self.allowed)
        value = int(text)
        lowest, highest = _RANGES[self.kind]
        if not lowest <= value <= highest:
            raise ConfigError(self.key, text, self.allowed)
        return value

    def _decimal(self, text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise ConfigError(self.key, text, self.allowed) from None

    def _validate(self, value: ConfigValue, text: str) -> None:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            self._validate_bounds(value, text)
        elif isinstance(value, tuple):
            self._validate_items(value, text)
        elif isinstance(value, str):
            self._validate_text(value, text)
        if self.check is not None and (allowed := self.check(value)) is not None:
            raise ConfigError(self.key, text, allowed)

    def _validate_bounds(self, value: float, text: str) -> None:
        too_small = self.minimum is not None and not value >= self.minimum
        too_large = self.maximum is not None and not value <= self.maximum
        if (too_small or too_large) and value not in self.extra_values:
            raise ConfigError(self.key, text, self.allowed)

    def _validate_items(self, items: tuple[str, ...], text: str) -> None:
        if not self.valid_values:
            return
        if any(item not in self.valid_values for item in items) or (self.non_empty and not items):
            raise ConfigError(self.key, text, self.allowed)
        if len(set(items)) != len(items):
            raise ConfigError(self.key, text, f"{self.allowed}, each at most once")

    def _validate_text(self, value: str, text: str) -> None:
        if self.non_empty and not value:
            raise ConfigError(self.key, text, self.allowed)
        if not self.valid_values:
            return
        candidates = [v.lower() for v in self.valid_values] if self.ignore_case else self.valid_values
        if (value.lower() if self.ignore_case else value) not in candidates:
            raise ConfigError(self.key, text, self.allowed)


def split_list(text: str) -> tuple[str, ...]:
    """Return the items of a comma-separated list without surrounding blanks.

    A blank text is an empty list.
    """
    stripped = text.strip()
    return tuple(item.strip() for item in stripped.split(",")) if stripped else ()


def value_text(value: ConfigValue) -> str | None:
    """Return a parsed value as Kafka prints it: true or false, items joined by commas; None if not set."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).replace("e+", "E")


def table(definitions: Iterable[ConfigDefinition]) -> Mapping[str, ConfigDefinition]:
    """Return the definitions by key, in their order.

    Two definitions of one key fail an assertion.
    """
    by_key: dict[str, ConfigDefinition] = {}
    for definition in definitions:
        assert definition.key not in by_key, definition.key
        by_key[definition.key] = definition
    return by_key


def parse_values(
    definitions: Mapping[str, ConfigDefinition], values: Mapping[str, str]
) -> dict[str, ConfigValue]:
    """Return every defined key with its value in `values`, or its default.

    Keys in `values` that are not defined are ignored.
    Errors: ConfigError for a value that is not allowed, and for a required key without a value.
    """
    parsed: dict[str, ConfigValue] = {}
    for key, definition in definitions.items():
        text = values.get(key)
        if text is None and definition.required:
            raise ConfigError(key, None, f"a value is required: {definition.documentation}")
        parsed[key] = definition.default if text is None else definition.parse(text)
    return parsed


def reject_unknown_keys(definitions: Mapping[str, ConfigDefinition], values: Mapping[str, str]) -> None:
    """Raise ConfigError for a key in `values` that is not defined.

    Its value is not shown: it may be a secret.
    """
    for key in values:
        if key not in definitions:
            raise ConfigError(
                key,
                "[not shown]",
                f"the key is unknown{did_you_mean(key, definitions)};"
                f" allowed is one of: {', '.join(definitions)}",
            )
