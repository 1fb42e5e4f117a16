"""One attack: what it is called, what it does, and what it may cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.harness.hostile.scene import Scene

MEBIBYTE: Final = 1 << 20
MEMORY_MIB: Final = 64
"""What hostile input may take by default, over what the broker had before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """A row of the table. `run` attacks, and returns when it has finished or the scene's time is up."""

    name: str
    item: str
    """The source: a number of the issue, "corpus" for the list of hostile inputs, "review" for our own."""
    does: str
    """What the attacker does, in one line."""
    run: Callable[[Scene], None]
    memory_mib: int = MEMORY_MIB
    """How much the broker's memory may grow at most while it lasts."""
    memory_kept_mib: int = MEMORY_MIB
    """How much may remain: the allocator does not return everything, and some attacks leave state behind."""
    descriptors_kept: int = 8
    """How many descriptors may remain, as for the files of topics that were created."""
    log_lines_max: int = 100
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the broker that differ from those of the other attacks."""
    open_files_max: int | None = None
    is_short: bool = True
    """Whether it is part of the short form."""

    @property
    def needs_own_target(self) -> bool:
        """Whether it cannot share a broker with other attacks."""
        return bool(self.settings) or self.open_files_max is not None
