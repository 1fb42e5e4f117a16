"""Without a safeguard, the simulation of whole clusters finds a violation within a few seeds."""

from __future__ import annotations

import pytest

from tests.sim.cluster.run import run_seed
from tests.sim.cluster.safeguards import REMOVALS, Safeguard, ablate
from tests.sim.cluster.violation import Violation

SEEDS = 6


@pytest.mark.parametrize("safeguard", Safeguard)
def test_without_a_safeguard_a_guarantee_of_the_cluster_is_broken(safeguard: Safeguard) -> None:
    removal = REMOVALS[safeguard]
    with ablate(safeguard), pytest.raises(Violation):
        for seed in range(removal.first_seed, removal.first_seed + SEEDS):
            run_seed(seed, removal.plan)
