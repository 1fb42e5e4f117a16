"""JAAS login contexts in Kafka's syntax: one login module with its options.

    <class of the login module> <control flag> (<name>=<value>)* ;

A value is a word or a quoted text. Java's comments and the escapes of Java's StreamTokenizer are supported.
The class selects one of the supported mechanisms. It is never loaded, so that a config that can be changed
remotely cannot run code (CVE-2023-25194, CVE-2025-27818, CVE-2025-27819).

Errors: JaasError, whose text never contains a value. Source: JaasConfig and JaasContext of Apache Kafka 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Final, NamedTuple

from tidelog.base.dataclass import dataclass

PLAIN_LOGIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_LOGIN_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_LOGIN_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"

LOGIN_MODULES: Final[Mapping[str, str]] = {
    "PLAIN": PLAIN_LOGIN_MODULE,
    "SCRAM-SHA-256": SCRAM_LOGIN_MODULE,
    "SCRAM-SHA-512": SCRAM_LOGIN_MODULE,
    "OAUTHBEARER": OAUTHBEARER_LOGIN_MODULE,
}
"""The class of the login module of each supported mechanism."""

TEXT_CHARACTERS_MAX: Final = 1024 * 1024
_USER_PREFIX: Final = "user_"
_FLAGS: Final = frozenset({"REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL"})
_TOKEN: Final = re.compile(
    r"""[\x00-\x20]+ | //[^\r\n]* | /\*.*?\*/
    | "(?P<double>(?:[^"\\\r\n]|\\[^\r\n])*)" | '(?P<single>(?:[^'\\\r\n]|\\[^\r\n])*)'
    | (?P<word>[A-Za-z0-9_.$\-\u00a0-\U0010ffff]+) | (?P<mark>[=;])""",
    re.VERBOSE | re.DOTALL,
)
_NAME: Final = re.compile(r"[A-Za-z0-9_.\-]+")
"""The names of options that need no quotation marks."""
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_ESCAPED: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
}  # fmt: skip


class JaasError(ValueError):
    """A JAAS config that cannot be used; the text contains no value of an option."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """A login module; `options` are hidden in its representation, because they contain passwords."""

    name: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def users(self) -> dict[str, str]:
        """The passwords of PLAIN users on a server by user name: the options `user_<name>`."""
        return {
            name.removeprefix(_USER_PREFIX): value
            for name, value in self.options.items()
            if name.startswith(_USER_PREFIX)
        }


class _Token(NamedTuple):
    """A word or quoted text, or the mark `=` or `;`."""

    text: str
    is_mark: bool


def parse_jaas(text: str, mechanism: str) -> LoginModule:
    """Parse the config of `mechanism`, which must have exactly one login module, that of the mechanism."""
    if len(text) > TEXT_CHARACTERS_MAX:
        raise JaasError(f"a JAAS config of {len(text)} characters; the maximum is {TEXT_CHARACTERS_MAX}")
    tokens = _tokens(text)
    module = _login_module(tokens)
    if next(tokens, None) is not None:
        raise JaasError("the JAAS config has more than one login module")
    expected = LOGIN_MODULES.get(mechanism)
    if module.name != expected:
        raise JaasError(f"the login module of the JAAS config is not {expected}, which {mechanism} requires")
    return module


def jaas_text(mechanism: str, options: Mapping[str, str]) -> str:
    """Return a JAAS config with the login module of `mechanism`; the inverse of `parse_jaas`."""
    values = "".join(f" {_name(name)}={_quoted(value)}" for name, value in options.items())
    return f"{LOGIN_MODULES[mechanism]} required{values};"


def _name(text: str) -> str:
    # A user name is a part of the name of an option, and may have any character.
    return text if _NAME.fullmatch(text) else _quoted(text)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def _login_module(tokens: Iterator[_Token]) -> LoginModule:
    name = next(tokens, None)
    if name is None or name.is_mark:
        raise JaasError("the JAAS config has no login module")
    flag = next(tokens, None)
    if flag is None or flag.text.upper() not in _FLAGS:
        raise JaasError("the login module of the JAAS config has no control flag, for example: required")
    options: dict[str, str] = {}
    for token in tokens:
        if token.is_mark and token.text == ";":
            return LoginModule(name.text, options)
        equals, value = next(tokens, None), next(tokens, None)
        if token.is_mark or equals is None or not equals.is_mark or equals.text != "=":
            raise JaasError("an option of the JAAS config is not of the form name=value")
        if value is None or value.is_mark:
            raise JaasError("an option of the JAAS config has no value")
        options[token.text] = value.text
    raise JaasError("the login module of the JAAS config does not end with a semicolon")


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise JaasError(f"the JAAS config has an unexpected character at position {position}")
        position = match.end()
        kind = match.lastgroup
        if kind is not None:
            found = match[kind]
            yield _Token(_unescaped(found) if kind in ("double", "single") else found, kind == "mark")


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_escaped_character, text)


def _escaped_character(match: re.Match[str]) -> str:
    found = match[1]
    return chr(int(found, 8)) if found[0] in "01234567" else _ESCAPED.get(found, found)
