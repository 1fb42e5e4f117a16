"""The explorer selects seeds for pairs of state and fault that have rarely occurred."""

from __future__ import annotations

from tests.sim.cluster.coverage import ALL_PAIRS, Coverage
from tests.sim.cluster.explorer import CANDIDATES, Explorer
from tests.sim.cluster.plan import FaultRates, Plan


def test_seeds_with_faults_that_have_not_occurred_are_selected() -> None:
    def plan_of(seed: int) -> Plan:
        return Plan(faults=FaultRates(pause=1.0) if seed % CANDIDATES == 5 else FaultRates(kill=1.0))

    explorer = Explorer(0, plan_of)
    explorer.add(0, [("quiet", "kill"), ("node down", "kill")])
    assert explorer.select() == 5
    assert explorer.select() == CANDIDATES + 5


def test_seeds_with_settings_that_lead_to_a_rare_state_are_selected() -> None:
    def plan_of(seed: int) -> Plan:
        return Plan(group_members=2 if seed % CANDIDATES == 7 else 0, faults=FaultRates(kill=1.0))

    explorer = Explorer(0, plan_of)
    for _ in range(50):
        explorer.add(1, [("quiet", "kill")])
        explorer.add(7, [("quiet", "kill"), ("group rebalances", "kill")])
    assert explorer.select() == 7


def test_the_coverage_lists_what_has_not_occurred() -> None:
    coverage = Coverage()
    coverage.add([("quiet", "kill")])
    assert len(coverage.missing) == len(ALL_PAIRS) - 1
    assert coverage.lines()[0] == f"1 of {len(ALL_PAIRS)} pairs of state and fault have occurred:"
