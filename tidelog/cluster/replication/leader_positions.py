"""The position of one follower, which its leader derives from the follower's fetches.

A follower fetches from its log end, so the fetch offset is its log end offset. It is in sync if it was
caught up with the leader's log end within the last replica.lag.time.max.ms.

Units: times are monotonic ms. Source: kafka.cluster.Replica of Apache Kafka.
"""

from __future__ import annotations

from typing import Final

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import BrokerId, Offset

UNKNOWN_OFFSET: Final[Offset] = -1
NEVER_MS: Final = -(2**62)
"""A time before any allowed lag."""


@dataclass(slots=True)
class FollowerPosition:
    """One follower's offsets and times; offsets are -1 until it fetches from this leader."""

    broker_id: BrokerId
    log_end_offset: Offset = UNKNOWN_OFFSET
    log_start_offset: Offset = UNKNOWN_OFFSET
    leader_end_offset_at_fetch: Offset = UNKNOWN_OFFSET
    """The leader's log end offset at the last fetch."""
    last_fetch_ms: int = NEVER_MS
    last_followed_ms: int = NEVER_MS
    """The latest time at which it certainly followed this leader: the time of its second last fetch.

    The last fetch shows that it has received the response to the fetch before.
    """
    last_caught_up_ms: int = NEVER_MS
    """The latest time at which the leader's log end offset was at most the follower's current one."""
    broker_epoch: int | None = None
    """The broker epoch of its last fetch: -1 if the fetch had none, None before the first fetch."""

    def record_fetch(
        self,
        fetch_offset: Offset,
        log_start_offset: Offset,
        leader_end_offset: Offset,
        broker_epoch: int,
        now_ms: int,
    ) -> None:
        """Record a fetch: the follower has the log up to `fetch_offset`.

        If that was the leader's log end offset at the previous fetch, the follower was caught up at that
        time. A follower that is always a batch behind a busy leader therefore stays in sync.
        """
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif fetch_offset >= self.leader_end_offset_at_fetch:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.leader_end_offset_at_fetch = max(self.leader_end_offset_at_fetch, leader_end_offset)
        # Not the time of this fetch, which may have been in transit or unread for a long time.
        self.last_followed_ms = max(self.last_followed_ms, self.last_fetch_ms)
        self.last_fetch_ms = now_ms
        self.broker_epoch = broker_epoch

    def is_caught_up(self, leader_end_offset: Offset, now_ms: int, lag_time_max_ms: int) -> bool:
        """Return whether the follower is caught up, or was so within the last `lag_time_max_ms`."""
        return self.log_end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= lag_time_max_ms

    def on_new_leader_epoch(
        self, leader_end_offset: Offset, *, is_new_leader: bool, is_in_sync: bool, now_ms: int
    ) -> None:
        """Start a leader epoch: the lag time of in-sync followers starts now, others must catch up first.

        A leader that remains leader keeps the known offsets. A follower outside the ISR must not delay the
        high watermark.
        """
        since_ms = now_ms if is_in_sync else NEVER_MS
        self.last_caught_up_ms = self.last_followed_ms = since_ms
        if is_new_leader:
            self.log_end_offset = self.log_start_offset = UNKNOWN_OFFSET
            self.leader_end_offset_at_fetch = UNKNOWN_OFFSET
            self.last_fetch_ms = NEVER_MS
            self.broker_epoch = None
        else:
            self.leader_end_offset_at_fetch = leader_end_offset
            self.last_fetch_ms = since_ms
