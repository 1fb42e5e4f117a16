"""How a process shares out the files that it may open (RLIMIT_NOFILE).

| for | how many |
|---|---|
| partitions | half: one for each that is written to; the controller refuses to create more |
| the reserve | a sixteenth, at least 32: reads of sealed segments, checkpoints, other nodes, object stores |
| connections | the rest |

A connection is refused as well when its own descriptor is within the reserve: the system gives the lowest
free number, so that nearly all of those below are in use, whatever for.
"""

from __future__ import annotations

import logging
import resource
from dataclasses import dataclass
from typing import Final

logger = logging.getLogger(__name__)

_PARTITION_SHARE: Final = 2
_RESERVE_SHARE: Final = 16
_RESERVE_MIN: Final = 32
POOLED_MAX: Final = 1024
# More than any system allows one process; macOS refuses "unlimited".
_LIMIT_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class DescriptorBudget:
    """The shares of `limit` open files."""

    limit: int

    @property
    def partitions_max(self) -> int:
        """How many partitions a broker may hold."""
        return self.limit // _PARTITION_SHARE

    @property
    def reserve(self) -> int:
        """What connections leave free."""
        return max(_RESERVE_MIN, self.limit // _RESERVE_SHARE)

    @property
    def pooled_max(self) -> int:
        """How many descriptors of files that were read lately are kept: half of the reserve at most."""
        return min(POOLED_MAX, self.reserve // 2)

    @property
    def connections_max(self) -> int:
        """How many connections there may be."""
        return max(0, self.limit - self.partitions_max - self.reserve)

    def connection_refusal(self, descriptor: int, connections: int) -> str | None:
        """Return why a connection with this descriptor is one too many; None when it is not."""
        if connections < self.connections_max and descriptor < self.limit - self.reserve:
            return None
        return (
            f"there are {connections} connections, allowed are {self.connections_max} of the {self.limit} "
            "files that the process may open (ulimit -n)"
        )


def process_budget() -> DescriptorBudget:
    """Return the budget of this process as it is now."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return DescriptorBudget(_LIMIT_MAX if soft == resource.RLIM_INFINITY else min(soft, _LIMIT_MAX))


def raise_open_file_limit() -> None:
    """Allow this process as many open files as the system lets it have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _LIMIT_MAX if hard == resource.RLIM_INFINITY else hard
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:
        logger.warning("the limit of open files stays at %d instead of %d: %s", soft, wanted, error)
