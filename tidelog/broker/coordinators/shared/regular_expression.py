"""Regular expressions that clients send: RE2's syntax, as in Kafka, matched in time linear in the text.

Source: KIP-1152 (ListTransactions) and KIP-848 (subscriptions), both with RE2/J.
"""

from __future__ import annotations

from tidelog.base.linear_pattern import LinearPattern
from tidelog.protocol.errors import ErrorCode, KafkaError


class RegularExpression:
    """A compiled pattern that must match a whole text. Errors: KafkaError INVALID_REGULAR_EXPRESSION."""

    def __init__(self, pattern: str) -> None:
        try:
            self._pattern = LinearPattern(pattern)
        except ValueError as error:
            text = f"pattern {pattern[:100]!r}: {error}"
            raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, text) from error

    def matches(self, text: str) -> bool:
        """Return whether the whole of `text` matches."""
        return self._pattern.matches(text)
