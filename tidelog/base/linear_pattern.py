"""Regular expressions from outside the program, matched in time linear in the text (RE2).

Python's own matcher uses backtracking: a pattern of twenty characters could block the event loop for hours.

Bounds: a pattern has at most `CHARACTERS_MAX` characters, and takes at most `MEMORY_MAX_BYTES`, so that even
the worst match takes no more than about half a microsecond per character of the text.
"""

from __future__ import annotations

from typing import Final

import re2

CHARACTERS_MAX: Final = 1_000
MEMORY_MAX_BYTES: Final = 1 << 20


class LinearPattern:
    """A compiled pattern that must match a whole text. Errors: ValueError with the reason."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > CHARACTERS_MAX:
            raise ValueError(f"{len(pattern)} characters; at most {CHARACTERS_MAX} are allowed")
        options = re2.Options()
        options.max_mem = MEMORY_MAX_BYTES
        options.never_capture = True
        options.log_errors = False
        try:
            self._compiled = re2.compile(pattern, options)
        except re2.error as error:
            reason = error.args[0] if error.args else "invalid syntax"
            raise ValueError(reason.decode() if isinstance(reason, bytes) else str(reason)) from error

    def matches(self, text: str) -> bool:
        """Return whether the whole of `text` matches."""
        return self._compiled.fullmatch(text) is not None
