"""A failing seed becomes smaller, and is explained by a timeline."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.sim.cluster.failures import explain, failure_of
from tests.sim.cluster.plan import FaultRates, Plan
from tests.sim.cluster.plan_text import plan_from, text_of
from tests.sim.cluster.safeguards import REMOVALS, Safeguard, ablate
from tests.sim.cluster.shrinking import Failure, shrink

LARGE = Plan(
    nodes=5,
    safety_s=16.0,
    partitions=3,
    compression="lz4",
    config={"num.replica.fetchers": "2"},
    faults=FaultRates(kill=2.0, reset=0.1, cut=5.0),
)


def test_everything_that_a_failure_does_not_need_is_removed() -> None:
    def run(seed: int, plan: Plan) -> str | None:
        return f"offset {seed} is lost" if plan.faults.reset and plan.partitions > 1 else None

    shrinking = shrink(Failure(1, LARGE, "offset 1 is lost"), run, runs_max=100)
    assert shrinking.failure.plan == Plan(
        safety_s=2.0, partitions=3, producers=1, faults=FaultRates(reset=0.1), faults_max=1
    )
    assert shrinking.runs < 60


def test_a_failure_of_another_kind_is_not_a_smaller_one() -> None:
    def run(seed: int, plan: Plan) -> str | None:
        return "offset 17 is lost" if plan == LARGE else "no records are acknowledged"

    assert shrink(Failure(1, LARGE, "offset 1 is lost"), run, runs_max=100).failure.plan == LARGE


def test_the_number_of_runs_is_limited() -> None:
    tried = []

    def run(seed: int, plan: Plan) -> str | None:
        tried.append(seed)
        return None

    assert shrink(Failure(1, LARGE, "lost"), run, runs_max=7).runs == len(tried) == 7


def test_a_smaller_plan_is_tried_with_other_seeds() -> None:
    def run(seed: int, plan: Plan) -> str | None:
        return "lost" if seed % 2 == 0 else None

    shrinking = shrink(Failure(1, LARGE, "lost"), run, runs_max=200)
    assert shrinking.failure.seed % 2 == 0
    assert shrinking.failure.plan.nodes == 3


@pytest.mark.parametrize("plan", [Plan(), LARGE, replace(LARGE, faults_max=3)])
def test_a_plan_is_read_from_its_text(plan: Plan) -> None:
    assert plan_from(text_of(plan)) == plan


@pytest.mark.long
def test_a_failing_seed_of_a_whole_cluster_shrinks_and_prints_a_timeline() -> None:
    safeguard = Safeguard.REPEATED_BATCHES
    plan = replace(REMOVALS[safeguard].plan, nodes=4, faults=FaultRates(reset=0.1, slow_disk=10.0))
    with ablate(safeguard):
        failures = (Failure(seed, plan, failure_of(seed, plan) or "") for seed in range(8))
        failure = next(each for each in failures if each.text)
        text = explain(failure, runs_max=8)
    assert "twice" in text or "follows itself" in text
    assert f"python -m tests.sim.cluster --seed {failure.seed} --plan" in text
    first, smallest = (line for line in text.splitlines() if line.startswith("replay:"))
    assert len(smallest) < len(first)
    assert any("node-1 " in line and "serves clients" in line for line in text.splitlines())
