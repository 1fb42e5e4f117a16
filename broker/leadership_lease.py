"""Whether a partition that this node leads, as far as it knows, may have another leader by now.

A node that is cut off, or was frozen, does not hear that others lead. Appends are safe: they need the
followers. Answers from memory are not: a coordinator could tell offsets that were committed anew elsewhere
(redpanda#9571). So it answers only while one of these is known to have held within half a session:

    the controller answered a heartbeat, and the broker was not fenced
    every other in-sync replica followed this leader

Another leader comes only after this node was fenced, a whole session after its last heartbeat, so each is
proof. Either is enough: a cluster without controllers goes on, and so does one whose followers are slow.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.clock import Clock
from broker.partition import Partition


class LeadershipLease:
    """`confirmed_ms`: when the last heartbeat was sent that the controller has answered well."""

    def __init__(self, clock: Clock, session_timeout_ms: int, confirmed_ms: Callable[[], int]) -> None:
        self._clock = clock
        self._window_ms = session_timeout_ms // 2
        self._confirmed_ms = confirmed_ms

    def holds(self, partition: Partition) -> bool:
        """Whether nobody else can lead the partition yet."""
        since_ms = self._clock.monotonic_ms() - self._window_ms
        return self._confirmed_ms() >= since_ms or partition.is_followed_since(since_ms)
