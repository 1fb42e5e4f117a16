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
"""Seeds that a process takes at a time."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one seed came to."""

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
    overlooked: frozenset[str] = frozenset(),
    *,
    log: bool = False,
) -> Outcome:
    """One run: all faults, then none, and then everybody has to agree. Raises Violation."""
    world = SimulatedCluster(seed, swarm or swarm_of(seed), disabled, overlooked)
    if log:
        world.log = []
    try:
        return _run(world)
    except CommittedRecordsLost as lost:
        raise Violation("no_leader_lacks_committed_records", str(lost)) from lost
    finally:
        if world.log is not None:
            print("\n".join(world.log))


def _run(world: SimulatedCluster) -> Outcome:
    world.start()
    faults, appender, operator = Faults(world), Appender(world), Operator(world)
    world.run_until(world.now + world.swarm.safety_ms)
    faults.stop()
    operator.stopped = True
    healed_at = world.now
    if not world.run_until(healed_at + world.swarm.liveness_ms, lambda: _one_leads(world)):
        raise Violation("the_quorum_recovers", f"no stable leader: {_describe(world)}")
    appended, acknowledged = appender.appended, world.ledger.acknowledged
    target = world.ledger.end_offset + 5
    wanted = acknowledged + 3
    if not world.run_until(healed_at + world.swarm.liveness_ms, lambda: _all_reached(world, target, wanted)):
        raise Violation(
            "the_quorum_recovers",
            f"not all reach {target}: {_describe(world)}, appended {appended}, acknowledged {acknowledged}",
        )
    for node in world.nodes.values():
        assert node.quorum is not None and node.quorum.describe(node.clock()) is not None
    epochs = max(node.quorum.epoch for node in world.nodes.values() if node.quorum is not None)
    return Outcome(
        world.seed, world.trace, world.steps, epochs, world.ledger.acknowledged, world.now - healed_at
    )


def _one_leads(world: SimulatedCluster) -> bool:
    leaders = world.leaders()
    if len(leaders) != 1:
        return False
    leader = leaders[0].quorum
    assert leader is not None
    return all(
        node.quorum is not None
        and (node.quorum.epoch, node.quorum.leader_id) == (leader.epoch, leaders[0].id)
        for node in world.nodes.values()
    )


def _all_reached(world: SimulatedCluster, target: int, acknowledged: int) -> bool:
    """Every node has committed up to `target`, and so many records are acknowledged.

    That all nodes have the same is seen to after every step.
    """
    return world.ledger.acknowledged >= acknowledged and all(
        node.disk.log.high_watermark >= target for node in world.nodes.values()
    )


def _describe(world: SimulatedCluster) -> str:
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

    return "; ".join(of(node) for node in world.nodes.values())


def replay_command(seed: int) -> str:
    """How a failed seed is run again."""
    return f"python -m tests.sim.quorum.run {seed} --log"


def check_seed(seed: int) -> Outcome:
    """Run a seed; one in a hundred twice, to see that it runs the same. The failure says how to replay it."""
    try:
        outcome = run_seed(seed)
        if seed % 100 == 0 and run_seed(seed) != outcome:
            raise Violation("runs_are_reproducible", "two runs of the seed differ")
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error!r}; replay: {replay_command(seed)}") from error
    return outcome


def run_chunk(seeds: Sequence[int]) -> list[Outcome | str]:
    """Run seeds; those that fail are reported as text."""
    results: list[Outcome | str] = []
    for seed in seeds:
        try:
            results.append(check_seed(seed))
        except AssertionError as error:
            results.append(str(error))
    return results


def chunks(first: int, count: int) -> Iterator[range]:
    """`count` seeds from `first` on, in portions."""
    for start in range(first, first + count, CHUNK):
        yield range(start, min(start + CHUNK, first + count))


def main() -> int:
    """The command line."""
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
