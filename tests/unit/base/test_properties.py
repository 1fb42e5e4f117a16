"""Java properties text: the examples of the format, and unusual text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.base.config_definition import ConfigError
from tidelog.base.properties import parse_properties


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", {}),
        ("a=b", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a = b", {"a": "b"}),
        ("a : b", {"a": "b"}),
        ("a\tb", {"a": "b"}),
        ("  a=b", {"a": "b"}),
        ("a=b  ", {"a": "b  "}),
        ("a==b", {"a": "=b"}),
        ("a= = b", {"a": "= b"}),
        ("a=b=c:d e", {"a": "b=c:d e"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=b", {"": "b"}),
        ("# comment\n! another\na=b", {"a": "b"}),
        ("   # comment\na=b", {"a": "b"}),
        ("a=#b", {"a": "#b"}),
        ("\n\n a=b\n\n", {"a": "b"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b\\\n   c", {"a": "bc"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\n# no comment", {"a": "b# no comment"}),
        ("# comment\\\na=b", {"a": "b"}),
        ("fruits   apple, \\\n         pear", {"fruits": "apple, pear"}),
        ("a=b\\", {"a": "b"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a\\:b\\ c=d", {"a:b c": "d"}),
        ("a=\\t\\n\\r\\f\\q\\\\", {"a": "\t\n\r\fq\\"}),
        ("a=\\u0041\\u00e9", {"a": "Aé"}),
        ("path=C:\\\\kafka", {"path": "C:\\kafka"}),
        ("a=b\x0c", {"a": "b\x0c"}),
    ],
)
def test_lines_become_keys_and_values(text: str, values: dict[str, str]) -> None:
    assert parse_properties(text) == values


@pytest.mark.parametrize("text", ["a=\\u", "a=\\u12", "a=\\uxyzw", "\\u=a"])
def test_a_damaged_unicode_escape_is_an_error_that_shows_it(text: str) -> None:
    with pytest.raises(ConfigError, match="four hexadecimal digits"):
        parse_properties(text)


@given(st.dictionaries(st.text(), st.text(), max_size=5))
@settings(max_examples=300, deadline=None)
def test_escaped_text_is_read_as_written(values: dict[str, str]) -> None:
    lines = [f"{escape(key)}={escape(value)}" for key, value in values.items()]
    assert parse_properties("\n".join(lines)) == values


def escape(text: str) -> str:
    simple = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
    return "".join(simple.get(letter, letter if letter in "untrf" else f"\\{letter}") for letter in text)


@given(st.text(alphabet="ab=: \t\f\n\r\\#!u04", max_size=60))
@settings(max_examples=500, deadline=None)
def test_any_text_parses_or_is_a_config_error(text: str) -> None:
    try:
        parse_properties(text)
    except ConfigError:
        assert "\\u" in text
