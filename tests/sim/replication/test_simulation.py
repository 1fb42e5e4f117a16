"""The replicas of a partition under crashes, lost records, empty disks, link failures, delays and elections.

`TIDELOG_SIM_SEEDS` sets the number of seeds. A failure names its seed and the command that replays it.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.sim.replication.cluster import Swarm
from tests.sim.replication.run import run_seed
from tests.support.paths import ROOT

SEEDS = int(os.environ.get("TIDELOG_SIM_SEEDS", "200"))
CHUNK = 50


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_every_seed_keeps_acknowledged_records_and_ends_with_equal_replicas(first: int) -> None:
    failures = []
    for seed in range(first, min(first + CHUNK, SEEDS)):
        try:
            run_seed(seed)
        except AssertionError as error:
            failures.append(str(error))
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("first", range(0, SEEDS // 4, CHUNK))
def test_every_seed_of_a_tiered_log_ends_with_one_lineage_on_disks_and_in_the_tier(first: int) -> None:
    """KIP-405: copies, local deletion, outages of the tier, late metadata, followers that restart empty."""
    failures, remote_restarts = [], 0
    for seed in range(first, min(first + CHUNK, SEEDS // 4)):
        try:
            remote_restarts += run_seed(seed, tiered=True).remote_restarts
        except AssertionError as error:
            failures.append(str(error))
    assert not failures, "\n".join(failures)
    assert remote_restarts > 0, "no follower has restarted its log from the tier"


def test_the_seeds_exercise_faults() -> None:
    outcomes = [run_seed(seed) for seed in range(20)]
    assert sum(outcome.acknowledged for outcome in outcomes) > 500
    assert sum(outcome.elections for outcome in outcomes) > 40


def test_without_faults_everything_is_acknowledged() -> None:
    calm = Swarm(faults_every_ms=10_000, loss=0.0, slow=0.0)
    for seed in range(3):
        outcome = run_seed(seed, swarm=calm)
        assert outcome.elections == 0
        assert outcome.acknowledged == outcome.committed > 200


def test_a_sample_of_seeds_gives_the_same_run_with_other_hash_seeds() -> None:
    seeds = list(range(0, SEEDS, 100))
    program = f"from tests.sim.replication.run import run_seed\nprint([run_seed(seed) for seed in {seeds}])"
    output = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "5", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert output == f"{[run_seed(seed) for seed in seeds]}\n"
