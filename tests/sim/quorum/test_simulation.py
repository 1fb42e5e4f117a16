"""The metadata quorum under drop, delay, reorder, duplicate, partitions, crashes, pauses and lost disks.

`TIDELOG_SIM_SEEDS` sets the number of seeds. A failure names its seed and the command that replays it.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.sim.quorum.run import chunks, run_chunk, run_seed
from tests.sim.quorum.swarm import Swarm, Voters
from tests.support.paths import ROOT

SEEDS = int(os.environ.get("TIDELOG_SIM_SEEDS", "500"))


# Seeds beyond those of every run that have failed once.
CORPUS = (
    9754,  # several steps before one write: what is told before it is of the epoch before
    17316,  # an answer of the epoch before, in the step that begins the next
    27550,  # the first again
    45875,  # an observer obeys a leader who does not know that another has committed what it has cut
)


@pytest.mark.parametrize("seed", CORPUS)
def test_a_seed_that_has_failed_once_passes(seed: int) -> None:
    assert run_seed(seed).acknowledged


@pytest.mark.parametrize("seeds", list(chunks(0, SEEDS)), ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_every_seed_keeps_all_invariants_and_recovers(seeds: range) -> None:
    failures = [result for result in run_chunk(seeds) if isinstance(result, str)]
    assert not failures, "\n".join(failures)


def test_a_calm_cluster_elects_one_leader_and_commits_everything() -> None:
    for seed in range(5):
        outcome = run_seed(seed, Swarm(mode=Voters.STATIC, observers=1, safety_ms=5_000))
        assert outcome.epochs == 1, outcome
        assert outcome.acknowledged > 10


def test_a_seed_runs_the_same_whatever_the_hashes_of_the_process() -> None:
    program = "from tests.sim.quorum.run import run_seed\nprint([run_seed(seed) for seed in (3, 4, 5, 6)])"
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert outputs[0].startswith("[Outcome(") and outputs[0] == outputs[1]
