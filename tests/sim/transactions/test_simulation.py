"""Simulation of the transaction coordinator: atomicity, no hanging transactions, and ablations."""

from __future__ import annotations

import os

import pytest

from tests.sim.transactions.cluster import Violation
from tests.sim.transactions.run import run_seed
from tests.sim.transactions.safeguards import Safeguard, ablate

SEEDS = int(os.environ.get("TIDELOG_SIM_SEEDS", "100"))
SEEDS_TO_FIND = 600
FIRST_SEED_TO_FIND = {Safeguard.CURRENT_EPOCH_TO_END: 255}
"""Only saves time: a search from seed 0 also finds the violation."""


@pytest.mark.parametrize("version", [0, 2])
def test_every_transaction_is_atomic_and_none_hangs(version: int) -> None:
    outcomes = [run_seed(seed, version=version) for seed in range(SEEDS)]
    assert all(outcome.crashes for outcome in outcomes)
    assert sum(outcome.committed for outcome in outcomes) > 5 * SEEDS
    assert sum(outcome.unknown for outcome in outcomes) > 0


def test_a_seed_gives_the_same_run() -> None:
    assert run_seed(7) == run_seed(7)


@pytest.mark.parametrize("safeguard", list(Safeguard), ids=lambda each: each.name.lower())
def test_without_a_safeguard_the_simulator_finds_a_violation(safeguard: Safeguard) -> None:
    with ablate(safeguard), pytest.raises(Violation):
        first = FIRST_SEED_TO_FIND.get(safeguard, 0)
        for seed in range(first, first + SEEDS_TO_FIND):
            run_seed(seed)
