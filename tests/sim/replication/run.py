"""Runs seeds: `python -m tests.sim.replication.run SEED [tiered]` replays one and prints what happened."""

from __future__ import annotations

import sys
import zlib
from random import Random
from typing import NamedTuple

from tests.sim.replication.cluster import SimulatedCluster, Swarm
from tests.sim.replication.controller import Rule
from tests.sim.replication.faults import Faults
from tests.sim.replication.ledger import Violation
from tests.sim.replication.safeguards import Safeguard, ablate

RECOVERY_MS = 6_000


class Outcome(NamedTuple):
    """The result of one seed; equal for equal seeds."""

    seed: int
    events: int
    committed: int
    acknowledged: int
    elections: int
    unclean_elections: int
    digest: int
    remote_restarts: int = 0


def run_seed(
    seed: int,
    *,
    disabled: frozenset[Safeguard] = frozenset(),
    rules_off: frozenset[Rule] = frozenset(),
    swarm: Swarm | None = None,
    trace: bool = False,
    tiered: bool = False,
) -> Outcome:
    """Run one seed; Violation names the seed and, with `trace`, has all events as notes."""
    with ablate(disabled):
        return _run_seed(seed, rules_off=rules_off, swarm=swarm, trace=trace, tiered=tiered)


def _run_seed(
    seed: int, *, rules_off: frozenset[Rule], swarm: Swarm | None, trace: bool, tiered: bool
) -> Outcome:
    rng = Random(seed)
    kind = Swarm.with_tier if tiered else Swarm.of
    cluster = SimulatedCluster(rng, swarm or kind(rng), rules_off=rules_off)
    cluster.is_traced = trace
    faults = Faults(cluster)
    try:
        faults.start()
        cluster.run_until(cluster.swarm.chaos_ms)
        faults.heal_for_good()
        if not cluster.run_until(cluster.now_ms + RECOVERY_MS // 10, faults.has_recovered):
            # All eligible replicas may have lost their disks: then only the operator can help.
            if cluster.controller.partition_image.leader < 0:
                cluster.controller.elect_any()
                cluster.publish()
            if not cluster.run_until(cluster.now_ms + RECOVERY_MS, faults.has_recovered):
                raise Violation(f"no recovery: {cluster.controller.partition_image}")
        cluster.ledger.check_end()
    except (Violation, AssertionError) as error:
        error.args = (
            f"seed {seed}, {cluster.now_ms} ms: {error}\nreplay: python -m tests.sim.replication.run {seed}"
            + (" tiered" if tiered else ""),
        )
        if trace:
            error.add_note("\n".join(cluster.log[-60:]))
        raise
    logs = [(b.log.base, b.log.entries, b.log.leader_epochs.entries) for b in cluster.brokers]
    return Outcome(
        seed,
        cluster.events,
        len(cluster.ledger.committed),
        len(cluster.ledger.acknowledged),
        cluster.controller.partition_image.leader_epoch,
        cluster.controller.unclean_election_count,
        zlib.crc32(repr(logs).encode()),
        cluster.tier.restart_count,
    )


if __name__ == "__main__":
    print(run_seed(int(sys.argv[1]), trace=True, tiered="tiered" in sys.argv))
