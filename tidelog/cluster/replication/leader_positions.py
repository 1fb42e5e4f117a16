"""The position of one follower as its leader knows it from fetches.

A follower fetches from its log end, so the fetch offset is its log end offset. It is in sync for as
long as it has been caught up with the leader's log end within replica.lag.time.max.ms.

Units: times are monotonic ms. Source: kafka.cluster.Replica of Apache Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidelog.protocol.ids import BrokerId, Offset

UNKNOWN_OFFSET: Final[Offset] = -1
NEVER_MS: Final = -(2**62)
"""A time that is longer ago than any lag."""


@dataclass(slots=True)
class FollowerPosition:
    """One follower's offsets and times; offsets are -1 until it fetches from this leader."""

    broker_id: BrokerId
    log_end_offset: Offset = UNKNOWN_OFFSET
    log_start_offset: Offset = UNKNOWN_OFFSET
    leader_end_offset_at_fetch: Offset = UNKNOWN_OFFSET
    """The leader's log end offset at the last fetch."""
    last_fetch_ms: int = NEVER_MS
    followed_ms: int = NEVER_MS
    """When it certainly followed this leader: it received the response to its last fetch but one."""
    last_caught_up_ms: int = NEVER_MS
    """The latest time at which the leader's log ended no further than the follower's does now."""
    broker_epoch: int | None = None
    """The registration under which it fetched: -1 if the fetch lacked it, None before the first fetch."""

    def record_fetch(
        self,
        fetch_offset: Offset,
        log_start_offset: Offset,
        leader_end_offset: Offset,
        broker_epoch: int,
        now_ms: int,
    ) -> None:
        """Record a fetch: the follower has the log up to `fetch_offset`.

        If that is the leader's log end offset at the fetch before, the follower was caught up then. A
        follower that is always a batch behind a busy leader thus stays in sync.
        """
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif fetch_offset >= self.leader_end_offset_at_fetch:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.leader_end_offset_at_fetch = max(self.leader_end_offset_at_fetch, leader_end_offset)
        # The last fetch itself may have been in transit, or unread, for long.
        self.followed_ms = max(self.followed_ms, self.last_fetch_ms)
        self.last_fetch_ms = now_ms
        self.broker_epoch = broker_epoch

    def is_caught_up(self, leader_end_offset: Offset, now_ms: int, lag_time_max_ms: int) -> bool:
        """Return whether it is caught up, or was within the last `lag_time_max_ms`."""
        return self.log_end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= lag_time_max_ms

    def on_new_leader_epoch(
        self, leader_end_offset: Offset, *, is_new_leader: bool, is_in_sync: bool, now_ms: int
    ) -> None:
        """Start a leader epoch: a follower in sync has the whole lag time, others must catch up first.

        A leader that stays leader keeps the offsets it knows. A follower outside the ISR must not
        delay the high watermark.
        """
        since_ms = now_ms if is_in_sync else NEVER_MS
        self.last_caught_up_ms = self.followed_ms = since_ms
        if is_new_leader:
            self.log_end_offset = self.log_start_offset = UNKNOWN_OFFSET
            self.leader_end_offset_at_fetch = UNKNOWN_OFFSET
            self.last_fetch_ms = NEVER_MS
            self.broker_epoch = None
        else:
            self.leader_end_offset_at_fetch = leader_end_offset
            self.last_fetch_ms = since_ms
