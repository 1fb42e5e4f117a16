"""A leader of dynamic voters that have fetched everything."""

from __future__ import annotations

from typing import Any

from tests.unit.cluster.quorum.logs import log_of
from tests.unit.cluster.quorum.replica_fixture import (
    ReplicaFixture,
    dynamic,
)
from tidelog.cluster.quorum.voter_set import VoterSet


def leader_of(*voters: int, **options: Any) -> ReplicaFixture:
    """Return node 1 as the leader of dynamic voters with everything committed."""
    subject = ReplicaFixture(voters=VoterSet(), log=log_of(dynamic(*voters)), **options)
    if len(voters) > 1:
        subject.lead()
        catch_up(subject, *voters[1:])
    assert subject.quorum.high_watermark == subject.log.end_offset
    return subject


def catch_up(subject: ReplicaFixture, *numbers: int) -> None:
    """Fetch as those nodes up to the end of the log."""
    for number in numbers:
        subject.fetch_as(number, subject.log.end_offset, subject.log.last_epoch, max_wait_ms=0)
