"""The error of a violated invariant."""

from __future__ import annotations


class Violation(AssertionError):
    """An invariant of the quorum does not hold."""

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
        self.invariant = invariant
        self.what = what
