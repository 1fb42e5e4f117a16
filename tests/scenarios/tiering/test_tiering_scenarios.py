"""The scenarios of KIP-405 with its own offsets, epochs and results, and further events at followers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.tiering.scenario import TieredScenario
from tests.sim.replication.safeguards import Safeguard

FOLDER = Path(__file__).parent
SCENARIOS = sorted(path.stem for path in FOLDER.glob("*.txt"))

# These state the kind of a follower's first request.
ONE_WAY_ONLY = {
    "kip_405_out_of_sync_after_deletion",
    "cut_below_local_start",
    "power_cut_after_building",
}

ABLATIONS = [
    ("kip_405_new_follower", Safeguard.REMOTE_AUXILIARY_BUILT),
    ("kip_405_log_divergence", Safeguard.REMOTE_AUXILIARY_BUILT),
    ("producers_come_from_the_tier", Safeguard.REMOTE_AUXILIARY_BUILT),
    ("segment_of_deposed_leader", Safeguard.REMOTE_SEGMENT_COMPARED),
    ("cut_below_local_start", Safeguard.REMOTE_CUT_REBUILDS),
]
"""A scenario, and a rule without which it fails."""


def run_scenario_of(name: str) -> None:
    TieredScenario((FOLDER / f"{name}.txt").read_text()).run()


def test_kip_405_a_new_follower_starts_at_the_leaders_local_log_start_with_its_epochs() -> None:
    run_scenario_of("kip_405_new_follower")


def test_kip_405_a_lagging_follower_fetches_records_still_local_on_the_leader() -> None:
    run_scenario_of("kip_405_out_of_sync_before_deletion")


def test_kip_405_a_follower_below_the_leaders_local_log_start_restarts_its_log() -> None:
    run_scenario_of("kip_405_out_of_sync_after_deletion")


def test_kip_405_after_crashes_of_both_the_tier_is_read_by_the_leaders_epochs() -> None:
    run_scenario_of("kip_405_hard_failures")


def test_kip_405_after_unclean_election_the_tier_is_read_by_the_new_leaders_epochs() -> None:
    run_scenario_of("kip_405_unclean_with_truncation")


def test_kip_405_an_empty_follower_restores_the_leaders_lineage_among_three_in_the_tier() -> None:
    run_scenario_of("kip_405_log_divergence")


def test_kip_405_a_follower_that_becomes_leader_copies_missing_segments() -> None:
    run_scenario_of("kip_405_follower_to_leader")


def test_kip_1023_an_empty_follower_starts_after_the_last_tiered_offset() -> None:
    run_scenario_of("kip_1023_last_tiered_offset")


def test_kafka_16105_a_follower_keeps_its_log_while_it_waits_for_remote_metadata() -> None:
    run_scenario_of("kafka_16105_metadata_is_late")


def test_a_follower_that_restores_leaves_the_isr_and_delays_no_commit() -> None:
    run_scenario_of("building_follower_leaves_the_isr")


def test_a_new_leader_with_a_fully_local_log_ends_the_wait_for_the_tier() -> None:
    run_scenario_of("leader_changes_while_building")


def test_a_log_that_diverges_below_its_local_log_start_is_restored_again() -> None:
    run_scenario_of("cut_below_local_start")


def test_a_segment_of_another_lineage_counts_only_up_to_the_divergence() -> None:
    run_scenario_of("segment_of_deposed_leader")


def test_a_follower_starts_after_a_segment_with_other_boundaries() -> None:
    run_scenario_of("segment_boundaries_of_another")


def test_a_duplicate_sent_to_a_leader_restored_from_the_tier_is_not_appended_again() -> None:
    run_scenario_of("producers_come_from_the_tier")


def test_after_a_power_failure_a_follower_keeps_its_restored_state() -> None:
    run_scenario_of("power_cut_after_building")


def test_every_transcript_has_a_test() -> None:
    source = Path(__file__).read_text()
    assert [name for name in SCENARIOS if f'run_scenario_of("{name}")' not in source] == []


@pytest.mark.parametrize("name", sorted(set(SCENARIOS) - ONE_WAY_ONLY))
def test_the_scenario_holds_with_offset_for_leader_epoch_requests(name: str) -> None:
    scenario = TieredScenario((FOLDER / f"{name}.txt").read_text())
    scenario.lines.insert(0, "old fetches")
    scenario.run()


@pytest.mark.parametrize(
    ("name", "safeguard"),
    ABLATIONS,
    ids=lambda value: value if isinstance(value, str) else value.name.lower(),
)
def test_the_scenario_fails_without_its_safeguard(name: str, safeguard: Safeguard) -> None:
    with pytest.raises(AssertionError):
        TieredScenario((FOLDER / f"{name}.txt").read_text(), frozenset({safeguard})).run()
