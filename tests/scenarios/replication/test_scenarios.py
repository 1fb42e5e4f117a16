"""Every transcript of this folder holds, and does not without the rule that it is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.replication.safeguards import Safeguard
from tests.scenarios.replication.scenario import Scenario

FOLDER = Path(__file__).parent
SCENARIOS = sorted(path.stem for path in FOLDER.glob("*.txt"))

# What counts single fetches, or says in which version they are.
ONE_WAY_ONLY = {
    "kafka_7128_joining_too_early",
    "kip_101_scenario_1",
    "kip_320_fencing",
    "kip_841_fenced_follower",
    "kip_903_late_fetch",
    "kip_903_wiped_disk",
    "leader_returns_unheard",
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_scenario_holds(name: str) -> None:
    Scenario.of(FOLDER / f"{name}.txt").run()


@pytest.mark.parametrize("name", sorted(set(SCENARIOS) - ONE_WAY_ONLY))
def test_the_scenario_holds_when_followers_ask_with_offset_for_leader_epoch(name: str) -> None:
    scenario = Scenario.of(FOLDER / f"{name}.txt")
    scenario.lines.insert(0, "old fetches")
    scenario.run()


@pytest.mark.parametrize(
    ("name", "safeguard"),
    [
        ("kip_101_scenario_1", Safeguard.TRUNCATION_BY_EPOCH),
        ("kip_101_scenario_2", Safeguard.TRUNCATION_BY_EPOCH),
        ("kip_101_scenario_2", Safeguard.TRUNCATION_BEFORE_FETCHING),
        ("kip_279_back_to_back", Safeguard.EPOCHS_ITERATED),
        ("kip_279_back_to_back", Safeguard.TRUNCATION_BEFORE_FETCHING),
        ("kip_279_without_records", Safeguard.EPOCH_NOTED_ON_ELECTION),
        ("kip_320_fencing", Safeguard.LEADER_EPOCH_FENCING),
        ("kip_320_fenced_follower", Safeguard.LEADER_EPOCH_FENCING),
        ("kafka_7128_joining_too_early", Safeguard.EPOCH_START_BEFORE_JOINING),
        ("kip_903_wiped_disk", Safeguard.BROKER_EPOCH_BEFORE_JOINING),
        ("kip_903_late_fetch", Safeguard.STALE_INCARNATION_REFUSED),
        ("kip_841_fenced_follower", Safeguard.FENCED_STAY_OUT),
        ("leader_returns_unheard", Safeguard.POSITIONS_OF_ONE_EPOCH),
        ("kip_966_last_replica", Safeguard.MIN_ISR_FOR_HIGH_WATERMARK),
        ("kip_405_unclean_2", Safeguard.TRUNCATION_BY_EPOCH),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name.lower(),
)
def test_without_its_safeguard_the_scenario_does_not_hold(name: str, safeguard: Safeguard) -> None:
    with pytest.raises(AssertionError):
        Scenario.of(FOLDER / f"{name}.txt", frozenset({safeguard})).run()


def test_without_iterating_over_epochs_old_followers_keep_records_that_the_leader_does_not_have() -> None:
    path = FOLDER / "kip_279_three_failovers.txt"
    scenario = Scenario.of(path, frozenset({Safeguard.EPOCHS_ITERATED}))
    scenario.lines.insert(0, "old fetches")
    with pytest.raises(AssertionError):
        scenario.run()


def test_a_line_that_is_no_command_is_named() -> None:
    with pytest.raises(AssertionError, match="line 2, 'dance A'"):
        Scenario("replicas A B, min isr 1\ndance A").run()
