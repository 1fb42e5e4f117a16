"""Suggestions for mistyped names: commands, options and configuration keys."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

SUGGESTIONS_MAX: Final = 3


def similar_names(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that are similar to `name`: first those that begin with it."""
    names = list(known)
    similar = [each for each in names if name and each.startswith(name)]
    similar += [each for each in get_close_matches(name, names) if each not in similar]
    return similar[:SUGGESTIONS_MAX]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a phrase with the similar names for the end of an error text; '' if no name is similar."""
    similar = similar_names(name, known)
    return f"; did you mean {' or '.join(similar)}?" if similar else ""
