"""Whether a partition that this node leads, as far as it knows, may have another leader by now.

A node that is cut off, or was frozen, does not hear that others lead. Appends are safe: they need the
followers. Answers from memory are not: a coordinator could tell offsets that were committed anew elsewhere
(redpanda#9571). Two things prove something, each of another time:

    the controller answered a heartbeat, sent at t, and did not fence this broker
        nobody else leads until a whole session after t: who is silent is succeeded only after it was fenced,
        and is let in again only when it has heard of that
    every other in-sync replica followed this leader, at t or later
        nobody else led at t; nothing is said of later, when the session may be over

So an answer from memory needs a heartbeat within half a session, or followers that came after it was asked
for. Everything else is served while either proof is that young: a cluster without controllers goes on, and
so does one whose followers are slow. Not proved is what takes no silence: an election of the preferred
leader, a reassignment. Of those this node hears with the metadata, as in Kafka.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from tidelog.base.clock import Clock
from tidelog.broker.partitions.partition import Partition
from tidelog.protocol.errors import ErrorCode, KafkaError

_LOOK_AGAIN_S: Final = 0.01


class LeadershipLease:
    """`confirmed_ms`: when the last heartbeat was sent that the controller has answered well."""

    def __init__(self, clock: Clock, session_timeout_ms: int, confirmed_ms: Callable[[], int]) -> None:
        self._clock = clock
        self._window_ms = session_timeout_ms // 2
        self._confirmed_ms = confirmed_ms

    @property
    def is_confirmed(self) -> bool:
        """Whether the controller has answered a heartbeat of the last half session."""
        return self._confirmed_ms() >= self._clock.monotonic_ms() - self._window_ms

    def is_likely(self, partition: Partition) -> bool:
        """Whether this node led the partition within half a session, by either proof."""
        since_ms = self._clock.monotonic_ms() - self._window_ms
        return partition.is_led and (self.is_confirmed or partition.is_followed_since(since_ms))

    async def confirm(self, partition: Partition) -> None:
        """Return when nobody else led the partition as this was called; mostly at once.

        Without heartbeats it takes a fetch of each in-sync follower.
        Errors: NOT_LEADER_OR_FOLLOWER when there is no proof within half a session.
        """
        asked_ms = self._clock.monotonic_ms()
        while not self._is_proved(partition, asked_ms):
            if not partition.is_led or self._clock.monotonic_ms() > asked_ms + self._window_ms:
                raise KafkaError(
                    ErrorCode.NOT_LEADER_OR_FOLLOWER,
                    f"{partition.topic_partition} may have another leader, of whom this node has not heard",
                )
            await asyncio.sleep(_LOOK_AGAIN_S)

    def _is_proved(self, partition: Partition, asked_ms: int) -> bool:
        is_confirmed = self._confirmed_ms() >= asked_ms - self._window_ms
        return partition.is_led and (is_confirmed or partition.is_followed_since(asked_ms + 1))
