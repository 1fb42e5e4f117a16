"""Config definitions: text to values as Kafka parses them, and errors that name key, value and bounds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.base.config_definition import (
    ConfigDefinition,
    ConfigError,
    ConfigKind,
    split_list,
    table,
    value_text,
)

PORT = ConfigDefinition(key="a.port", kind=ConfigKind.INT, default=1, minimum=0, maximum=65535)
LEVEL = ConfigDefinition(
    key="a.level", kind=ConfigKind.INT, default=-1, minimum=1, maximum=9, extra_values=(-1,)
)
SWITCH = ConfigDefinition(key="a.switch", kind=ConfigKind.BOOLEAN, default=False)
RATIO = ConfigDefinition(key="a.ratio", kind=ConfigKind.DOUBLE, default=0.5, minimum=0, maximum=1)
POLICY = ConfigDefinition(
    key="a.policy", kind=ConfigKind.LIST, default=("delete",), valid_values=("compact", "delete")
)
SECRET = ConfigDefinition(key="a.secret", kind=ConfigKind.PASSWORD)
NAME = ConfigDefinition(key="a.name", kind=ConfigKind.STRING, default="x", non_empty=True)


@pytest.mark.parametrize(
    ("definition", "text", "value"),
    [
        (PORT, "9092", 9092),
        (PORT, " 9092\t", 9092),
        (PORT, "+7", 7),
        (PORT, "0", 0),
        (PORT, "65535", 65535),
        (LEVEL, "-1", -1),
        (LEVEL, "9", 9),
        (SWITCH, "TRUE", True),
        (SWITCH, "false", False),
        (RATIO, "0.25", 0.25),
        (RATIO, "1", 1.0),
        (POLICY, "compact, delete", ("compact", "delete")),
        (POLICY, "", ()),
        (POLICY, "  ", ()),
        (SECRET, " with blanks ", " with blanks "),
        (NAME, " trimmed ", "trimmed"),
    ],
)
def test_text_becomes_a_typed_value(definition: ConfigDefinition, text: str, value: object) -> None:
    assert definition.parse(text) == value


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        (PORT, "-1"),
        (PORT, "65536"),
        (PORT, "9092.0"),
        (PORT, "0x10"),
        (PORT, "1_000"),
        (PORT, "٣"),
        (PORT, ""),
        (PORT, "9" * 400),
        (LEVEL, "0"),
        (LEVEL, "-2"),
        (LEVEL, "10"),
        (SWITCH, "yes"),
        (SWITCH, ""),
        (RATIO, "1.1"),
        (RATIO, "-0.1"),
        (RATIO, "nan"),
        (RATIO, "half"),
        (POLICY, "compact,"),
        (POLICY, "archive"),
        (POLICY, "delete,delete"),
        (NAME, ""),
    ],
)
def test_an_invalid_value_is_an_error_with_key_and_value(definition: ConfigDefinition, text: str) -> None:
    with pytest.raises(ConfigError) as error:
        definition.parse(text)
    line = str(error.value)
    assert line.startswith(f"Invalid configuration value: {definition.key}={text}; ")
    assert "allowed is" in line
    assert "\n" not in line


def test_an_error_names_the_bounds() -> None:
    with pytest.raises(ConfigError, match=r"a\.level=12; allowed is a 32-bit number from 1 to 9 or -1"):
        LEVEL.parse("12")


@pytest.mark.parametrize(
    ("kind", "lowest", "highest"),
    [
        (ConfigKind.SHORT, -(2**15), 2**15 - 1),
        (ConfigKind.INT, -(2**31), 2**31 - 1),
        (ConfigKind.LONG, -(2**63), 2**63 - 1),
    ],
)
def test_a_number_outside_its_integer_width_is_refused(kind: ConfigKind, lowest: int, highest: int) -> None:
    definition = ConfigDefinition(key="k", kind=kind, default=0)
    assert definition.parse(str(lowest)) == lowest
    assert definition.parse(str(highest)) == highest
    for outside in (lowest - 1, highest + 1):
        with pytest.raises(ConfigError):
            definition.parse(str(outside))


@given(st.integers(-(2**40), 2**40))
@settings(max_examples=200, deadline=None)
def test_every_number_outside_the_bounds_is_refused(number: int) -> None:
    if 0 <= number <= 65535:
        assert PORT.parse(str(number)) == number
    else:
        with pytest.raises(ConfigError):
            PORT.parse(str(number))


@given(st.text())
@settings(max_examples=300, deadline=None)
def test_any_text_parses_or_is_a_config_error(text: str) -> None:
    for definition in (PORT, LEVEL, SWITCH, RATIO, POLICY, SECRET, NAME):
        try:
            definition.parse(text)
        except ConfigError as error:
            assert error.key == definition.key


def test_choices_may_ignore_case() -> None:
    definition = ConfigDefinition(
        key="k", kind=ConfigKind.STRING, default="A", valid_values=("A", "B"), ignore_case=True
    )
    assert definition.parse("b") == "b"
    with pytest.raises(ConfigError):
        definition.parse("c")


def test_a_password_is_sensitive_and_hidden() -> None:
    assert SECRET.is_sensitive
    assert SECRET.shown_text("abc") == "[hidden]"
    assert SECRET.shown_text(None) is None
    assert PORT.shown_text("1") == "1"


def test_values_are_formatted_as_in_kafka() -> None:
    values: list[Any] = [None, True, False, 12, 0.5, 1.7976931348623157e308, ("a", "b"), (), "x"]
    assert [value_text(value) for value in values] == [
        None,
        "true",
        "false",
        "12",
        "0.5",
        "1.7976931348623157E308",
        "a,b",
        "",
        "x",
    ]


def test_lists_are_split_at_commas() -> None:
    assert split_list(" a , b,c ") == ("a", "b", "c")
    assert split_list("") == ()
    assert split_list("a,") == ("a", "")


def test_the_attribute_name_is_the_key_with_underscores() -> None:
    assert PORT.field_name == "a_port"


def test_no_key_is_defined_twice() -> None:
    with pytest.raises(AssertionError):
        table([PORT, PORT])
