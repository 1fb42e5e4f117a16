"""The metadata quorum under drop, delay, reorder, duplicate, partitions, crashes, pauses and lost disks.

`TIDELOG_SIM_SEEDS` sets the number of seeds. A failure names its seed and the command that replays it.
"""

from __future__ import annotations

import os

import pytest

from tests.sim.quorum.run import chunks, run_chunk, run_seed
from tests.sim.quorum.swarm import Swarm, Voters
from tests.sim.seeds import output_of

SEEDS = int(os.environ.get("TIDELOG_SIM_SEEDS", "250"))


# Seeds that failed once, in addition to those of every run.
CORPUS = (
    9754,  # several steps before one write: messages before it have the previous epoch
    17316,  # a response of the previous epoch in the step that begins the next
    27550,  # the first case again
    45875,  # an observer follows a leader that does not know that another committed what it truncated
)


@pytest.mark.parametrize("seed", CORPUS)
def test_previously_failing_seeds_pass(seed: int) -> None:
    assert run_seed(seed).acknowledged


@pytest.mark.parametrize("seeds", list(chunks(0, SEEDS)), ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_every_seed_keeps_all_invariants_and_recovers(seeds: range) -> None:
    failures = [result for result in run_chunk(seeds) if isinstance(result, str)]
    assert not failures, "\n".join(failures)


def test_a_cluster_without_faults_elects_one_leader_and_commits_everything() -> None:
    for seed in range(5):
        outcome = run_seed(seed, Swarm(mode=Voters.STATIC, observers=1, safety_ms=5_000))
        assert outcome.epochs == 1, outcome
        assert outcome.acknowledged > 10


def test_a_seed_gives_the_same_run_with_any_hash_seed() -> None:
    program = "from tests.sim.quorum.run import run_seed\nprint([run_seed(seed) for seed in (3, 4, 5, 6)])"
    output = output_of(program, hash_seed=1)
    assert output.startswith("[Outcome(") and output == output_of(program, hash_seed=2)
