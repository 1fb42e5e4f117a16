"""One attack: its name, its actions, and its allowed cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.harness.hostile.attack_context import AttackContext

MEBIBYTE: Final = 1 << 20
MEMORY_MIB: Final = 64
"""The default bound on the memory of hostile input, in addition to the broker's memory before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """A row of the table. `run` attacks, and returns when it is complete or its time has ended."""

    name: str
    item: str
    """The source: a number of the first issue, a later issue, "corpus" for the list of hostile inputs,
    "review" for our own.
    """
    actions: str
    """What the attacker does, in one line."""
    run: Callable[[AttackContext], None]
    memory_mib: int = MEMORY_MIB
    """The bound on the growth of the broker's memory during the attack."""
    memory_kept_mib: int = MEMORY_MIB
    """The bound on the memory afterwards: the allocator keeps some, and some attacks leave state."""
    descriptors_kept: int = 8
    """The bound on remaining descriptors, for example of created topics."""
    log_lines_max: int = 100
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the broker that differ from those of the other attacks."""
    open_files_max: int | None = None
    is_short: bool = True
    """Whether the attack belongs to the short form."""

    @property
    def needs_own_target(self) -> bool:
        """Return whether the attack cannot share a broker with other attacks."""
        return bool(self.settings) or self.open_files_max is not None
