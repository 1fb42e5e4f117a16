"""Checks that a partition whose leader is this node has no newer leader.

A node that was partitioned from the network, or suspended, does not receive the metadata of a new leader.
Appends are safe, because they need the followers. Responses from memory are not: a coordinator could return
offsets although newer ones were committed on another broker (redpanda#9571). There are two proofs:

    The controller responded to a heartbeat that was sent at time t, and did not fence this broker.
        No other broker becomes leader within one session timeout after t. A broker without heartbeats loses
        its leadership only after it was fenced, and is unfenced only after it has received this metadata.
    Every other in-sync replica has fetched from this leader at time t or later.
        No other broker was leader at t. This proves nothing about later times.

A response from memory therefore needs a heartbeat within half a session timeout, or fetches of all in-sync
followers after the request was received. All other requests are served while either proof is at most half a
session timeout old. A cluster without controllers, or with slow followers, therefore continues to work. The
proofs do not cover leader changes while heartbeats arrive: preferred leader election and reassignment. This
node receives those with the metadata, as in Kafka.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from tidelog.base.clock import Clock
from tidelog.broker.partitions.partition import Partition
from tidelog.protocol.errors import ErrorCode, KafkaError

_CHECK_INTERVAL_S: Final = 0.01


class LeadershipLease:
    """Proves this node's leadership of partitions.

    `confirmed_ms` returns when the last heartbeat was sent to which the controller responded without error.
    """

    def __init__(self, clock: Clock, session_timeout_ms: int, confirmed_ms: Callable[[], int]) -> None:
        self._clock = clock
        self._window_ms = session_timeout_ms // 2
        self._confirmed_ms = confirmed_ms

    @property
    def is_confirmed(self) -> bool:
        """Whether the controller responded to a heartbeat of the last half session timeout."""
        return self._confirmed_ms() >= self._clock.monotonic_ms() - self._window_ms

    def is_likely(self, partition: Partition) -> bool:
        """Return whether either proof of the leadership is at most half a session timeout old."""
        since_ms = self._clock.monotonic_ms() - self._window_ms
        return partition.is_leader and (
            self._confirmed_ms() >= since_ms or partition.is_followed_since(since_ms)
        )

    async def confirm(self, partition: Partition) -> None:
        """Wait for a proof that this node was the only leader at the time of the call.

        Usually the proof exists already. Without heartbeats, each in-sync follower must fetch first.
        Errors: NOT_LEADER_OR_FOLLOWER if there is no proof within half a session timeout.
        """
        called_ms = self._clock.monotonic_ms()
        while not self._is_proved(partition, called_ms):
            if not partition.is_leader or self._clock.monotonic_ms() > called_ms + self._window_ms:
                raise KafkaError(
                    ErrorCode.NOT_LEADER_OR_FOLLOWER,
                    f"{partition.topic_partition} may have a newer leader than this node",
                )
            await asyncio.sleep(_CHECK_INTERVAL_S)

    def _is_proved(self, partition: Partition, called_ms: int) -> bool:
        is_confirmed = self._confirmed_ms() >= called_ms - self._window_ms
        return partition.is_leader and (is_confirmed or partition.is_followed_since(called_ms + 1))
