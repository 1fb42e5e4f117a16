"""A node may answer from memory while the controller or the followers prove that nobody succeeded it."""

from __future__ import annotations

from typing import cast

import pytest

from broker.leadership_lease import LeadershipLease
from broker.partition import Partition
from tests.support.network import FakeClock

SESSION_MS = 9_000


class Followed:
    """A led partition whose followers were last heard of at a time."""

    def __init__(self, at_ms: int) -> None:
        self._at_ms = at_ms

    def is_followed_since(self, since_ms: int) -> bool:
        return self._at_ms >= since_ms


@pytest.mark.parametrize(
    ("confirmed_ms", "followed_ms", "holds"),
    [(100_000, 0, True), (0, 100_000, True), (95_500, 0, True), (95_499, 95_499, False), (0, 0, False)],
    ids=["heartbeat", "followers", "half a session", "longer", "cut off"],
)
def test_either_proof_is_enough_for_half_a_session(confirmed_ms: int, followed_ms: int, holds: bool) -> None:
    clock = FakeClock()
    clock.now_ms = 100_000
    lease = LeadershipLease(clock, SESSION_MS, lambda: confirmed_ms)
    assert lease.holds(cast(Partition, Followed(followed_ms))) is holds
