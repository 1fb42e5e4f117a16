"""Each workload of whole clusters alone: without faults, and with the faults of a few seeds."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tests.sim.cluster.plan import NO_FAULTS, Plan, plan_of, with_store_faults
from tests.sim.cluster.run import run_seed
from tests.sim.cluster.workloads.settings import SETTINGS, first_levels

SEEDS = range(1, 4)


def plan_with(workload: str, plan: Plan) -> Plan:
    features = first_levels(Random(1)) if workload == "features" else None
    config = {**plan.config, **SETTINGS[workload]}
    faults = plan.faults
    if workload == "tiering" and faults != NO_FAULTS:
        faults = with_store_faults(faults, Random(1), syncs_every_append=plan.syncs_every_append)
    return replace(plan, workloads=(workload,), config=config, features=features, faults=faults)


@pytest.mark.long
@pytest.mark.parametrize("workload", SETTINGS)
def test_a_workload_without_faults_keeps_its_guarantees_and_loses_no_record(workload: str) -> None:
    outcome = run_seed(1, plan_with(workload, Plan(faults=NO_FAULTS, safety_s=5.0)))
    assert outcome.acknowledged == outcome.sent > 100


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("workload", SETTINGS)
def test_a_workload_keeps_its_guarantees_under_faults(workload: str, seed: int) -> None:
    assert run_seed(seed, plan_with(workload, plan_of(seed))).acknowledged > 0
