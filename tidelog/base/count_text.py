"""Counts in texts for users: `1 record`, `2 records`."""

from __future__ import annotations


def count_text(count: int, noun: str, plural: str | None = None, style: str = "") -> str:
    """Return the count with its noun; `plural` is the noun with `s` unless it is given.

    `style` is the format of the count: "," separates thousands.
    """
    return f"{count:{style}} {noun if count == 1 else plural or noun + 's'}"
