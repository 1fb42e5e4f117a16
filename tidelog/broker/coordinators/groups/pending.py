"""A reply that comes later: a join waits for the other members, a sync for the leader's assignment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

R = TypeVar("R")


class Pending(Generic[R]):
    """Completed exactly once; whoever subscribed is told at that moment, or at once when it is over.

    Invariant: at most one subscriber.
    """

    __slots__ = ("_reply", "_subscriber")

    def __init__(self) -> None:
        self._reply: R | None = None
        self._subscriber: Callable[[R], None] | None = None

    @classmethod
    def of(cls, reply: R) -> Pending[R]:
        """One that is complete from the start."""
        pending: Pending[R] = cls()
        pending.complete(reply)
        return pending

    @property
    def reply(self) -> R | None:
        """The reply, or None while it is awaited."""
        return self._reply

    def complete(self, reply: R) -> None:
        """Hand over the reply."""
        assert self._reply is None, f"{self._reply} is followed by {reply}"
        self._reply = reply
        if self._subscriber is not None:
            self._subscriber(reply)

    def subscribe(self, subscriber: Callable[[R], None]) -> None:
        """Have `subscriber` called with the reply."""
        assert self._subscriber is None, "a pending reply has one subscriber"
        self._subscriber = subscriber
        if self._reply is not None:
            subscriber(self._reply)
