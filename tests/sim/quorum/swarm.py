"""The plan of one seed: the size of the cluster, the quality of network and disks, and the rates of faults.

A seed enables or disables each kind of fault and chooses its rate. Some seeds have only partitions, some only
crashes, and a few have no faults: continuous faults can hide a bug that needs a quiet moment.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from random import Random


class Voters(Enum):
    """Where the voter set comes from."""

    STATIC = "controller.quorum.voters"
    DYNAMIC = "a snapshot at offset 0 names the voters (KIP-853)"
    UPGRADED = "static voters, which an operator writes to the log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Swarm:
    """The plan of one run. Times are in ms; `…_every` is the mean time between two faults, 0 for never."""

    voters: int = 3
    observers: int = 0
    mode: Voters = Voters.STATIC
    safety_ms: int = 15_000
    liveness_ms: int = 30_000

    latency_max: int = 10
    drop: float = 0.0
    duplicate: float = 0.0
    late: float = 0.0
    """The share of messages that arrive much later than others, up to `late_max`."""
    late_max: int = 3_000
    persist_max: int = 5
    slow_persist: float = 0.0
    """The share of fsyncs that take up to a second."""
    tick_late_max: int = 5
    append_every: int = 150

    partition_every: int = 0
    one_way: float = 0.3
    """The share of network partitions that drop messages in one direction only."""
    partition_max: int = 5_000
    isolate_every: int = 0
    """A follower is isolated for a long time, from all other nodes or only from the leader."""
    steady: bool = False
    """No fault justifies an election: a leader that all voters follow must stay leader."""
    crash_every: int = 0
    crash_leader: float = 0.4
    """The share of faults of one node that affect a leader."""
    down_max: int = 3_000
    lose_unsynced: float = 0.5
    """The share of crashes that are power failures; the others only kill the process."""
    pause_every: int = 0
    pause_max: int = 4_000
    wipe_every: int = 0
    voter_change_every: int = 0
    auto_join: bool = False
    """Observers request to become voters (KIP-1186)."""
    resign_every: int = 0
    snapshot_records: int = 0
    """The number of committed records after which a node writes a snapshot, 0 for never."""

    election_timeout: int = 1_000
    fetch_timeout: int = 2_000
    fetch_max_wait: int = 300
    fetch_max_bytes: int = 1_000_000
    snapshot_chunk: int = 1_000_000
    join_steps: bool = False
    """A node processes all events that waited for an fsync as one step, with one fsync."""
    through_codec: bool = False
    """Every message is encoded and decoded."""

    def with_reliable_network(self) -> Swarm:
        """Return the same plan with a reliable network and fast disks."""
        return replace(self, drop=0.0, duplicate=0.0, late=0.0, slow_persist=0.0)


def swarm_of(seed: int) -> Swarm:
    """Return the plan of `seed`."""
    random = Random(seed * 2 + 1)

    def often(probability: float, low: int, high: int) -> int:
        return round(low * (high / low) ** random.random()) if random.random() < probability else 0

    def rate(probability: float, highest: float) -> float:
        return round(highest * random.random() ** 2, 4) if random.random() < probability else 0.0

    mode = random.choice((Voters.STATIC, Voters.STATIC, Voters.DYNAMIC, Voters.DYNAMIC, Voters.UPGRADED))
    dynamic = mode is not Voters.STATIC
    return Swarm(
        voters=random.choice((1, 2, 3, 3, 3, 3, 3, 3, 5, 5)),
        observers=random.choice((0, 0, 1, 1, 2)),
        mode=mode,
        safety_ms=random.choice((6_000, 10_000, 15_000)),
        latency_max=random.choice((2, 10, 50)),
        drop=rate(0.5, 0.3),
        duplicate=rate(0.4, 0.3),
        late=rate(0.4, 0.2),
        late_max=random.choice((500, 3_000, 8_000)),
        persist_max=random.choice((1, 5, 20)),
        slow_persist=rate(0.3, 0.1),
        tick_late_max=random.choice((1, 5, 100)),
        append_every=random.choice((60, 150, 400)),
        partition_every=often(0.5, 1_000, 6_000),
        one_way=random.choice((0.0, 0.3, 1.0)),
        partition_max=random.choice((1_000, 4_000, 8_000)),
        crash_every=often(0.5, 800, 6_000),
        crash_leader=random.choice((0.2, 0.5, 0.9)),
        down_max=random.choice((20, 1_000, 4_000)),
        lose_unsynced=random.choice((0.3, 0.7, 1.0)),
        pause_every=often(0.3, 1_000, 6_000),
        pause_max=random.choice((500, 3_000, 6_000)),
        wipe_every=often(0.4, 2_000, 8_000) if dynamic else 0,
        voter_change_every=often(0.6, 500, 4_000) if dynamic else 0,
        auto_join=dynamic and random.random() < 0.25,
        resign_every=often(0.2, 2_000, 8_000),
        snapshot_records=often(0.5, 5, 60),
        election_timeout=random.choice((300, 1_000)),
        fetch_timeout=random.choice((600, 2_000)),
        fetch_max_wait=random.choice((100, 300, 500)),
        fetch_max_bytes=random.choice((100, 1_000, 1_000_000)),
        snapshot_chunk=random.choice((100, 1_000_000)),
        join_steps=random.random() < 0.5,
        through_codec=random.random() < 0.05,
    )
