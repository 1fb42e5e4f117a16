"""How a process divides the file descriptors that it may open (RLIMIT_NOFILE).

| use | share |
|---|---|
| partitions | half: one for each active segment; the controller rejects the creation of more |
| the reserve | a sixteenth, at least 32: reads of sealed segments, checkpoints, other nodes, object stores |
| connections | the rest |

A connection is also rejected if its own descriptor is within the reserve: the system assigns the lowest free
number, so that nearly all lower descriptors are in use.
"""

from __future__ import annotations

import fcntl
import logging
import os
import resource
from typing import Final

from tidelog.base.dataclass import dataclass

logger = logging.getLogger(__name__)

_PARTITION_SHARE: Final = 2
_RESERVE_SHARE: Final = 16
_RESERVE_MIN: Final = 32
POOLED_MAX: Final = 1024
"""The bound on the descriptors that are kept open after a read."""
_LIMIT_MAX: Final = 1 << 20
"""More than any system allows one process; macOS rejects "unlimited"."""
TABLE_SIZE: Final = 1 << 16
"""The descriptors for which the kernel's table gets space at the start: 0.5 MiB."""


@dataclass(frozen=True, slots=True)
class DescriptorBudget:
    """The shares of `limit` open files."""

    limit: int

    @property
    def partitions_max(self) -> int:
        """The maximum number of partitions of a broker."""
        return self.limit // _PARTITION_SHARE

    @property
    def reserve(self) -> int:
        """The number of descriptors that connections may not use."""
        return max(_RESERVE_MIN, self.limit // _RESERVE_SHARE)

    @property
    def pooled_max(self) -> int:
        """The maximum number of descriptors that are kept open after a read: at most half of the reserve."""
        return min(POOLED_MAX, self.reserve // 2)

    @property
    def connections_max(self) -> int:
        """The maximum number of connections."""
        return max(0, self.limit - self.partitions_max - self.reserve)

    def connection_refusal(self, descriptor: int, connections: int) -> str | None:
        """Return why a connection with this descriptor must be rejected; None if it is accepted."""
        if connections < self.connections_max and descriptor < self.limit - self.reserve:
            return None
        return (
            f"there are {connections} connections, allowed are {self.connections_max} of the {self.limit} "
            "files that the process may open (ulimit -n)"
        )


def process_budget() -> DescriptorBudget:
    """Return the current budget of this process."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return DescriptorBudget(_LIMIT_MAX if soft == resource.RLIM_INFINITY else min(soft, _LIMIT_MAX))


def raise_open_file_limit() -> None:
    """Raise the limit of open files of this process to the maximum that the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    new_limit = _LIMIT_MAX if hard == resource.RLIM_INFINITY else hard
    if soft == resource.RLIM_INFINITY or soft >= new_limit:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (new_limit, hard))
    except (OSError, ValueError) as error:
        logger.warning("Cannot raise the limit of open files from %d to %d: %s", soft, new_limit, error)


def reserve_descriptor_table() -> None:
    """Let the kernel allocate the process's table of descriptors for TABLE_SIZE of them, or up to the limit.

    Linux doubles the table when it is full. If the process has several threads, the call that needs the next
    descriptor, such as accept, then waits for a grace period of RCU: 11 to 15 ms, on the event loop.
    """
    highest = min(TABLE_SIZE, process_budget().limit) - 1
    try:
        descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.close(fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, highest))
        finally:
            os.close(descriptor)
    except OSError as error:
        logger.debug("The table of descriptors was not enlarged: %s", error)
