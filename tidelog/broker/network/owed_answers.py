"""The answers that a connection owes for requests it has let others pass: given in the order they came.

Bounds: `OWED_MAX` requests, without their frames.
"""

from __future__ import annotations

from typing import Final

from tidelog.broker.network.request import Answer, Request

OWED_MAX: Final = 64


class _Open:
    """Stands for an answer that is not there yet; None is an answer, too."""


_OPEN: Final = _Open()


class OwedAnswers:
    """Requests in their order, each with its answer once there is one; `count` is how many there are."""

    __slots__ = ("_owed", "count")

    def __init__(self) -> None:
        self._owed: dict[Request, Answer | _Open] = {}
        self.count = 0

    def has(self, request: Request) -> bool:
        """Whether this request has no answer yet."""
        return self._owed.get(request) is _OPEN

    @property
    def is_full(self) -> bool:
        """Whether no further request may pass."""
        return self.count >= OWED_MAX

    def add(self, request: Request) -> None:
        """Owe one more answer."""
        self._owed[request] = _OPEN
        self.count += 1

    def answered(self, request: Request, answer: Answer) -> list[Answer]:
        """There is an answer; all that may be sent now, in order."""
        owed = self._owed
        owed[request] = answer
        ready: list[Answer] = []
        while owed:
            oldest = next(iter(owed))
            first = owed[oldest]
            if isinstance(first, _Open):
                break
            ready.append(first)
            del owed[oldest]
        self.count = len(owed)
        return ready

    def clear(self) -> list[Request]:
        """Owe nothing any more; those that had no answer."""
        without = [request for request in self._owed if self.has(request)]
        self._owed.clear()
        self.count = 0
        return without
