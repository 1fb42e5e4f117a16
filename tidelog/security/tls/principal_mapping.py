"""ssl.principal.mapping.rules: the rules that turn a distinguished name into the name of a principal.

    DEFAULT                         the distinguished name
    RULE:pattern/replacement/[LU]   if the pattern matches the whole name: the name with each match replaced;
                                    $1 is the first group; L and U change the result to lower or upper case

The first rule that matches applies. Patterns are matched by RE2, in a time that is linear in the length of
the name, which the client determines. RE2 has no lookahead and no back references in patterns; such a pattern
is rejected.

Errors: ConfigError for invalid rules; NoMatchingRule.
Source: KIP-371; SslPrincipalMapper of Apache Kafka 4.3.
"""

from __future__ import annotations

import re
from typing import Any, Final

import re2

from tidelog.base.config_definition import ConfigError
from tidelog.base.dataclass import dataclass

_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(,\s*|$)")
_PARSER: Final = re.compile(_RULE)
_GROUP: Final = re.compile(r"\$(\d+)|\\(.)|([^$\\]+)|(.)", re.DOTALL)


class NoMatchingRule(ValueError):
    """No rule matches a distinguished name: its owner has no principal."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """One rule; `replacement` has literal texts, and the numbers of groups."""

    pattern: Any
    replacement: tuple[str | int, ...]
    case: str

    def apply(self, name: str) -> str | None:
        """Return the name of the principal; None if the pattern does not match the whole `name`."""
        if self.pattern.fullmatch(name) is None:
            return None
        changed = self.pattern.sub(self._replace, name)
        if self.case == "L":
            return str(changed).lower()
        return str(changed).upper() if self.case == "U" else str(changed)

    def _replace(self, match: Any) -> str:
        return "".join(part if isinstance(part, str) else match[part] or "" for part in self.replacement)


class PrincipalMapper:
    """The parsed rules of one listener."""

    def __init__(self, rules: str = "DEFAULT", key: str = "ssl.principal.mapping.rules") -> None:
        """Parse `rules`, the value of `key`. Errors: ConfigError with the rule that is not allowed."""
        self._rules = [rule for text in _split(rules) for rule in _parse(key, text)]

    def principal_name(self, distinguished_name: str) -> str:
        """Return the name that the first matching rule returns. Errors: NoMatchingRule."""
        for rule in self._rules:
            name = distinguished_name if rule is None else rule.apply(distinguished_name)
            if name is not None:
                return name
        raise NoMatchingRule(f"no rule of ssl.principal.mapping.rules matches {distinguished_name!r}")


def _split(rules: str) -> list[str]:
    return [match[1] for match in _SPLITTER.finditer(rules.strip())]


def _parse(key: str, text: str) -> list[_Rule | None]:
    """Return the rule of `text`, None for DEFAULT; an empty text has no rule."""
    match = _PARSER.match(text)
    if match is None or match.end() != len(text):
        raise ConfigError(
            key, text, "allowed is DEFAULT, or RULE:pattern/replacement/ followed by L, U or nothing"
        )
    if match[1] is not None:
        return [None]
    if match[2] is None:
        return []
    options = re2.Options()
    options.log_errors = False
    try:
        pattern = re2.compile(match[2], options)
    except re2.error as error:
        raise ConfigError(key, text, f"allowed is a pattern of RE2: {error}") from None
    return [_Rule(pattern, _replacement(key, text, match[3], pattern.groups), match[4])]


def _replacement(key: str, rule: str, text: str, groups: int) -> tuple[str | int, ...]:
    """Return the parts of a replacement; a number that is no group is a literal text, as in Kafka."""
    parts: list[str | int] = []
    for match in _GROUP.finditer(text):
        digits, escaped, literal, other = match.groups()
        if digits is None:
            if other is not None:
                raise ConfigError(key, rule, f"allowed after {other} in the replacement is a number")
            parts.append(escaped if escaped is not None else literal)
            continue
        size = len(digits)
        while size > 1 and int(digits[:size]) > groups:
            size -= 1
        number = int(digits[:size])
        parts += [number, digits[size:]] if number <= groups else [f"${digits}"]
    return tuple(parts)
