"""The state of an object, for tests that assert on it before and after a change.

After `assert subject.state is State.A` mypy treats `subject.state` as A, also after a call that changes
it. The result of a function is not treated in this way.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

StateT_co = TypeVar("StateT_co", covariant=True)


class HasState(Protocol[StateT_co]):
    """An object with a state."""

    @property
    def state(self) -> StateT_co:
        """The current state."""
        ...


def state_of(subject: HasState[StateT_co]) -> StateT_co:
    """Return the current state of `subject`."""
    return subject.state
