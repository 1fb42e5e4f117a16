"""A reply that is completed later: a join waits for other members, a sync for the leader's assignment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

R = TypeVar("R")


class Pending(Generic[R]):
    """A reply that is completed exactly once and is passed to its subscriber.

    Invariant: at most one subscriber.
    """

    __slots__ = ("_reply", "_subscriber")

    def __init__(self) -> None:
        self._reply: R | None = None
        self._subscriber: Callable[[R], None] | None = None

    @classmethod
    def of(cls, reply: R) -> Pending[R]:
        """Return a reply that is complete from the start."""
        pending: Pending[R] = cls()
        pending.complete(reply)
        return pending

    @property
    def reply(self) -> R | None:
        """The reply; None while it is not complete."""
        return self._reply

    def complete(self, reply: R) -> None:
        """Set the reply and call the subscriber."""
        assert self._reply is None, f"a second reply {reply} after {self._reply}"
        self._reply = reply
        if self._subscriber is not None:
            self._subscriber(reply)

    def subscribe(self, subscriber: Callable[[R], None]) -> None:
        """Call `subscriber` with the reply, at once if it is complete."""
        assert self._subscriber is None, "a pending reply has one subscriber"
        self._subscriber = subscriber
        if self._reply is not None:
            subscriber(self._reply)
