"""Without each rule of replication, the simulator finds a violation within 300 seeds.

`tests/scenarios` removes the rules whose violation needs a particular order of events.
"""

from __future__ import annotations

import pytest

from tests.scenarios.replication.test_scenarios import ABLATIONS
from tests.scenarios.tiering.test_tiering_scenarios import ABLATIONS as TIERED_ABLATIONS
from tests.sim.replication.controller import Rule
from tests.sim.replication.run import run_seed
from tests.sim.replication.safeguards import Safeguard

SEEDS_MAX = 300

# The first seed of each search. It only saves time: a search from seed 0 also finds the violation.
FOUND_BY_SIMULATION = {
    Safeguard.EPOCH_START_BEFORE_JOINING: 5,
    Safeguard.HIGH_WATERMARK_BEFORE_JOINING: 0,
    Safeguard.BROKER_EPOCH_BEFORE_JOINING: 33,
    Safeguard.MIN_ISR_FOR_HIGH_WATERMARK: 0,
    Safeguard.EXPANSION_COUNTS_AT_ONCE: 0,
    Safeguard.SHRINK_COUNTS_WHEN_COMMITTED: 0,
    Safeguard.EPOCH_NOTED_ON_ELECTION: 69,
    Safeguard.TRUNCATION_BY_EPOCH: 0,
    Safeguard.TRUNCATION_BEFORE_FETCHING: 0,
    Safeguard.EPOCHS_ITERATED: 19,
}
FOUND_IN_TIERED_LOGS = (Safeguard.REMOTE_AUXILIARY_BUILT, Safeguard.REMOTE_SEGMENT_COMPARED)
RULES_FOUND = {
    Rule.UNCLEAN_SHUTDOWN_LEAVES: 0,
    Rule.BROKER_EPOCHS_CHECKED: 33,
    Rule.PARTITION_EPOCH_CHECKED: 35,
}


def is_found(
    first: int,
    disabled: frozenset[Safeguard] = frozenset(),
    rules_off: frozenset[Rule] = frozenset(),
    *,
    tiered: bool = False,
) -> bool:
    for seed in range(first, first + SEEDS_MAX):
        try:
            run_seed(seed, disabled=disabled, rules_off=rules_off, tiered=tiered)
        except AssertionError:
            return True
    return False


@pytest.mark.parametrize("safeguard", FOUND_BY_SIMULATION, ids=lambda each: each.name.lower())
def test_without_a_safeguard_the_simulator_finds_a_violation(safeguard: Safeguard) -> None:
    assert is_found(FOUND_BY_SIMULATION[safeguard], disabled=frozenset({safeguard}))


@pytest.mark.parametrize("safeguard", FOUND_IN_TIERED_LOGS, ids=lambda each: each.name.lower())
def test_without_a_safeguard_of_tiering_the_simulator_finds_a_violation(safeguard: Safeguard) -> None:
    assert is_found(0, disabled=frozenset({safeguard}), tiered=True)


@pytest.mark.parametrize("rule", RULES_FOUND, ids=lambda each: each.name.lower())
def test_without_a_rule_of_the_controller_the_simulator_finds_a_violation(rule: Rule) -> None:
    assert is_found(RULES_FOUND[rule], rules_off=frozenset({rule}))


def test_every_safeguard_is_removed_in_a_test() -> None:
    elsewhere = {safeguard for _, safeguard in (*ABLATIONS, *TIERED_ABLATIONS)}
    assert set(FOUND_BY_SIMULATION) | set(FOUND_IN_TIERED_LOGS) | elsewhere == set(Safeguard)
