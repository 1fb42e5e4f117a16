"""Counts in texts for users: `1 record`, `2 records`."""

from __future__ import annotations


def count_text(count: int, noun: str, plural: str | None = None) -> str:
    """Return the count with its noun; `plural` is the noun with `s` unless it is given."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"
