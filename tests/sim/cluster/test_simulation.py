"""Whole clusters in one process: real nodes and clients under crashes, cuts, resets and bad disks.

`TIDELOG_SIM_CLUSTER_SEEDS` sets the number of seeds. A seed that fails is shrunk: the message has the command
that replays the smallest failure, and its timeline.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from tests.sim.cluster.failures import explain, failure_of
from tests.sim.cluster.plan import NO_FAULTS, Plan, plan_of
from tests.sim.cluster.run import run_seed
from tests.sim.cluster.shrinking import Failure
from tests.sim.seeds import chunks_of_seeds, output_of

SEEDS = int(os.environ.get("TIDELOG_SIM_CLUSTER_SEEDS", "70"))
CHUNK = 10
SAFETY_S = 5.0
"""The phase of faults is shorter than in `make sim-cluster`: more seeds find more in the same time."""
SHRINKING_RUNS_MAX = 12


@pytest.mark.parametrize("seeds", chunks_of_seeds(SEEDS, CHUNK), ids=str)
def test_every_seed_keeps_acknowledged_records_in_order_and_recovers(seeds: range) -> None:
    for seed in seeds:
        plan = replace(plan_of(seed), safety_s=SAFETY_S)
        text = failure_of(seed, plan)
        assert text is None, explain(Failure(seed, plan, text), SHRINKING_RUNS_MAX)


def test_without_faults_every_record_is_acknowledged() -> None:
    outcome = run_seed(1, Plan(faults=NO_FAULTS, safety_s=5.0))
    assert outcome.acknowledged == outcome.sent > 100


def test_a_seed_gives_the_same_run_in_another_process_with_other_hash_seeds() -> None:
    program = "from tests.sim.cluster.run import run_seed\nrun_seed(0)\nprint(run_seed(4))"
    assert output_of(program, hash_seed=5) == f"{run_seed(4)}\n"
