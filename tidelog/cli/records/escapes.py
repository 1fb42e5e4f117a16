r"""Backslash escapes in delimiters and format strings, as in kcat.

`\n` `\r` `\t` `\\`, `\xNN` and `\0`; a backslash before another character means that character.
"""

from __future__ import annotations

import string
from typing import Final

_NAMED: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0"}


def read_escape(text: str, position: int) -> tuple[bytes, int]:
    """Return the bytes of the escape whose backslash is at `position`, and the position after it.

    Errors: ValueError for a backslash at the end and for `\\x` without two hexadecimal digits.
    """
    following = text[position + 1 : position + 2]
    if not following:
        raise ValueError(f"{text!r} ends with a lone backslash")
    if following == "x":
        digits = text[position + 2 : position + 4]
        if len(digits) != 2 or not set(digits) <= set(string.hexdigits):
            raise ValueError(f"{text!r}: \\x needs two hexadecimal digits, not {digits!r}")
        return bytes([int(digits, 16)]), position + 4
    return _NAMED.get(following, following.encode()), position + 2


def unescape(text: str) -> bytes:
    """Return `text` with its escapes replaced. Errors: see `read_escape`."""
    result = bytearray()
    position = 0
    while position < len(text):
        if text[position] == "\\":
            data, position = read_escape(text, position)
            result += data
        else:
            result += text[position].encode()
            position += 1
    return bytes(result)
