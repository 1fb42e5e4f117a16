"""The states of entities that were active recently, such as clients with a quota.

A client chooses its client id, so a hostile one may use another id for every request. The number of states
is therefore bounded: when the table is full, the state of the entity with the longest inactivity is dropped.
That entity starts with an empty rate when it is active again.

Bounds: ENTITIES_MAX states, each unused for at most EXPIRATION_MS.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

ENTITIES_MAX: Final = 5_000
EXPIRATION_MS: Final = 3_600_000

EntityT = TypeVar("EntityT")
StateT = TypeVar("StateT")


class Entities(Generic[EntityT, StateT]):
    """States by entity, in the order of their last use."""

    def __init__(self, entities_max: int = ENTITIES_MAX) -> None:
        self._entities_max = entities_max
        self._states: OrderedDict[EntityT, tuple[StateT, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._states)

    def get(self, entity: EntityT) -> StateT | None:
        """Return the state of an entity, without using it."""
        entry = self._states.get(entity)
        return None if entry is None else entry[0]

    def use(self, entity: EntityT, create: Callable[[], StateT], now_ms: int) -> StateT:
        """Return the state of an entity, which is created if there is none."""
        states = self._states
        entry = states.get(entity)
        if entry is None:
            self.expire(now_ms)
            if len(states) >= self._entities_max:
                states.popitem(last=False)
            state = create()
        else:
            state = entry[0]
        states[entity] = (state, now_ms)
        states.move_to_end(entity)
        return state

    def expire(self, now_ms: int) -> None:
        """Drop the states that were not used for EXPIRATION_MS."""
        states = self._states
        while states:
            entity, (_, used_ms) = next(iter(states.items()))
            if now_ms - used_ms < EXPIRATION_MS:
                return
            del states[entity]

    def items(self) -> Iterator[tuple[EntityT, StateT]]:
        """Iterate over the entities and their states."""
        for entity, (state, _) in self._states.items():
            yield entity, state

    def clear(self) -> None:
        """Drop all states."""
        self._states.clear()
