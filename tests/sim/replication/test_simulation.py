"""The replicas of a partition under crashes, lost records, empty disks, link failures, delays and elections.

`TIDELOG_SIM_SEEDS` sets the number of seeds. A failure names its seed and the command that replays it.
"""

from __future__ import annotations

import os
from functools import partial

import pytest

from tests.sim.replication.cluster import Swarm
from tests.sim.replication.run import run_seed
from tests.sim.seeds import chunks_of_seeds, output_of, run_all

SEEDS = int(os.environ.get("TIDELOG_SIM_SEEDS", "200"))
CHUNK = 50


@pytest.mark.parametrize("seeds", chunks_of_seeds(SEEDS, CHUNK), ids=str)
def test_every_seed_keeps_acknowledged_records_and_ends_with_equal_replicas(seeds: range) -> None:
    assert run_all(seeds, run_seed)


@pytest.mark.parametrize("seeds", chunks_of_seeds(SEEDS // 4, CHUNK), ids=str)
def test_every_seed_of_a_tiered_log_ends_with_one_lineage_on_disks_and_in_the_tier(seeds: range) -> None:
    """KIP-405: copies, local deletion, outages of the tier, late metadata, followers that restart empty."""
    outcomes = run_all(seeds, partial(run_seed, tiered=True))
    assert any(outcome.remote_restarts for outcome in outcomes), (
        "no follower has restarted its log from the tier"
    )


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
    assert output_of(program, hash_seed=5) == f"{[run_seed(seed) for seed in seeds]}\n"
