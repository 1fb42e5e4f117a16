"""Runs seeds: `python -m tests.sim.quorum.run 17` replays one, `--seeds 100000` is a long run with progress.

A failure prints the seed and the command that replays it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from tests.sim.quorum.clients import Appender, Operator
from tests.sim.quorum.cluster import SimulatedCluster
from tests.sim.quorum.faults import Faults
from tests.sim.quorum.node import SimNode
from tests.sim.quorum.safeguards import Safeguard
from tests.sim.quorum.swarm import Swarm, swarm_of
from tests.sim.quorum.violation import Violation
from tidelog.cluster.quorum.follower import CommittedRecordsLost

CHUNK = 50
"""The number of seeds that a process runs at a time."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one seed; equal for equal seeds."""

    seed: int
    trace: int
    steps: int
    epochs: int
    acknowledged: int
    healed_in_ms: int


def run_seed(
    seed: int,
    swarm: Swarm | None = None,
    disabled: frozenset[Safeguard] = frozenset(),
    ignored_invariants: frozenset[str] = frozenset(),
    *,
    log: bool = False,
) -> Outcome:
    """Run one seed: first with faults, then without, until all nodes agree. Raises Violation."""
    cluster = SimulatedCluster(seed, swarm or swarm_of(seed), disabled, ignored_invariants)
    if log:
        cluster.log = []
    try:
        return _run(cluster)
    except CommittedRecordsLost as lost:
        raise Violation("no_leader_lacks_committed_records", str(lost)) from lost
    finally:
        if cluster.log is not None:
            print("\n".join(cluster.log))


def _run(cluster: SimulatedCluster) -> Outcome:
    cluster.start()
    faults, appender, operator = Faults(cluster), Appender(cluster), Operator(cluster)
    cluster.run_until(cluster.now + cluster.swarm.safety_ms)
    faults.stop()
    operator.is_stopped = True
    healed_at = cluster.now
    if not cluster.run_until(healed_at + cluster.swarm.liveness_ms, lambda: _one_leads(cluster)):
        raise Violation("the_quorum_recovers", f"no stable leader: {_describe(cluster)}")
    append_count, acknowledged = appender.append_count, cluster.ledger.acknowledged
    target = cluster.ledger.end_offset + 5
    wanted = acknowledged + 3
    if not cluster.run_until(
        healed_at + cluster.swarm.liveness_ms, lambda: _all_reached(cluster, target, wanted)
    ):
        raise Violation(
            "the_quorum_recovers",
            f"not all nodes reach {target}: {_describe(cluster)}, "
            f"appended {append_count}, acknowledged {acknowledged}",
        )
    for node in cluster.nodes.values():
        assert node.quorum is not None and node.quorum.describe(node.clock()) is not None
    epochs = max(node.quorum.epoch for node in cluster.nodes.values() if node.quorum is not None)
    return Outcome(
        cluster.seed,
        cluster.trace,
        cluster.steps,
        epochs,
        cluster.ledger.acknowledged,
        cluster.now - healed_at,
    )


def _one_leads(cluster: SimulatedCluster) -> bool:
    leaders = cluster.leaders()
    if len(leaders) != 1:
        return False
    leader = leaders[0].quorum
    assert leader is not None
    return all(
        node.quorum is not None
        and (node.quorum.epoch, node.quorum.leader_id) == (leader.epoch, leaders[0].id)
        for node in cluster.nodes.values()
    )


def _all_reached(cluster: SimulatedCluster, target: int, acknowledged: int) -> bool:
    """Return whether all nodes have committed up to `target`, and enough records are acknowledged.

    The invariants after every step check that the nodes have equal entries.
    """
    return cluster.ledger.acknowledged >= acknowledged and all(
        node.disk.log.high_watermark >= target for node in cluster.nodes.values()
    )


def _describe(cluster: SimulatedCluster) -> str:
    def of(node: SimNode) -> str:
        log, quorum = node.disk.log, node.quorum
        offsets = f"log {log.start_offset}-{log.high_watermark}-{log.end_offset}"
        if quorum is None:
            return f"node {node.id} is down, {offsets}"
        voters = [voter.id for voter in quorum.voters]
        return (
            f"node {node.id} {quorum.state.name} in epoch {quorum.epoch} of {quorum.leader_id}, "
            f"{offsets}, voters {voters}"
        )

    return "; ".join(of(node) for node in cluster.nodes.values())


def replay_command(seed: int) -> str:
    """Return the command that replays a failed seed."""
    return f"python -m tests.sim.quorum.run {seed} --log"


def check_seed(seed: int) -> Outcome:
    """Run a seed, and one in a hundred twice to check that runs are equal; the failure has the command."""
    try:
        outcome = run_seed(seed)
        if seed % 100 == 0 and run_seed(seed) != outcome:
            raise Violation("runs_are_reproducible", "two runs of the seed differ")
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error!r}; replay: {replay_command(seed)}") from error
    return outcome


def run_chunk(seeds: Sequence[int]) -> list[Outcome | str]:
    """Run seeds and return their outcomes; the outcome of a failed seed is its message."""
    results: list[Outcome | str] = []
    for seed in seeds:
        try:
            results.append(check_seed(seed))
        except AssertionError as error:
            results.append(str(error))
    return results


def chunks(first: int, count: int) -> Iterator[range]:
    """Yield `count` seeds from `first` on in chunks."""
    for start in range(first, first + count, CHUNK):
        yield range(start, min(start + CHUNK, first + count))


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", nargs="?", type=int, help="replay this seed")
    parser.add_argument("--log", action="store_true", help="print every event and effect of the replay")
    parser.add_argument("--seeds", type=int, default=2_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    if options.seed is not None:
        print(swarm_of(options.seed))
        print(run_seed(options.seed, log=options.log))
        return 0
    return _long_run(options.first, options.seeds, options.processes)


def _long_run(first: int, count: int, processes: int) -> int:
    """Run many seeds in several processes, with a line of progress."""
    begun = time.monotonic()
    done = failed = steps = acknowledged = 0
    with ProcessPoolExecutor(processes) as pool:
        for results in pool.map(run_chunk, chunks(first, count)):
            for result in results:
                done += 1
                if isinstance(result, str):
                    failed += 1
                    print(f"\n{result}", flush=True)
                else:
                    steps += result.steps
                    acknowledged += result.acknowledged
            rate = done / (time.monotonic() - begun)
            print(
                f"\r{done} of {count} seeds, {rate:.1f}/s, {steps} steps, {acknowledged} acknowledged, "
                f"{failed} failed ",
                end="",
                file=sys.stderr,
                flush=True,
            )
    print(f"\n{done} seeds, {failed} failed, {time.monotonic() - begun:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
