"""The scenarios of KIP-405, its own offsets, epochs and answers, and what else can happen to followers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.tiering.scenario import TieredScenario
from tests.sim.replication.safeguards import Safeguard

FOLDER = Path(__file__).parent
SCENARIOS = sorted(path.stem for path in FOLDER.glob("*.txt"))

# What says of which kind the first question of a follower with records is.
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
"""A scenario, and a rule without which it does not hold."""


def holds(name: str) -> None:
    TieredScenario((FOLDER / f"{name}.txt").read_text()).run()


def test_kip_405_a_new_follower_begins_at_the_leaders_first_local_offset_with_the_leaders_epochs() -> None:
    holds("kip_405_new_follower")


def test_kip_405_a_follower_that_is_behind_copies_what_the_leader_still_has_on_its_disk() -> None:
    holds("kip_405_out_of_sync_before_deletion")


def test_kip_405_a_follower_behind_the_local_start_of_the_leader_restarts_its_log() -> None:
    holds("kip_405_out_of_sync_after_deletion")


def test_kip_405_after_hard_failures_of_both_the_tier_is_read_by_the_epochs_of_who_leads() -> None:
    holds("kip_405_hard_failures")


def test_kip_405_after_an_unclean_election_the_new_leaders_history_counts_in_the_tier_too() -> None:
    holds("kip_405_unclean_with_truncation")


def test_kip_405_a_follower_without_data_finds_the_leaders_history_among_three_in_the_tier() -> None:
    holds("kip_405_log_divergence")


def test_kip_405_a_follower_that_becomes_leader_uploads_what_is_not_in_the_tier_yet() -> None:
    holds("kip_405_follower_to_leader")


def test_kip_1023_an_empty_follower_begins_behind_the_last_tiered_offset() -> None:
    holds("kip_1023_last_tiered_offset")


def test_kafka_16105_a_follower_waits_for_metadata_and_tier_and_keeps_its_log_meanwhile() -> None:
    holds("kafka_16105_metadata_is_late")


def test_a_follower_that_builds_leaves_the_isr_and_holds_no_commit_up() -> None:
    holds("building_follower_leaves_the_isr")


def test_a_new_leader_that_has_it_all_on_its_disk_ends_the_wait_for_the_tier() -> None:
    holds("leader_changes_while_building")


def test_a_log_that_parts_below_its_local_start_takes_its_past_from_the_tier_again() -> None:
    holds("cut_below_local_start")


def test_a_segment_of_a_deposed_leader_counts_as_far_as_the_leader_has_it() -> None:
    holds("segment_of_deposed_leader")


def test_a_segment_with_boundaries_of_another_replica_is_begun_behind() -> None:
    holds("segment_boundaries_of_another")


def test_a_batch_that_is_sent_again_to_a_leader_that_never_copied_it_is_not_written_twice() -> None:
    holds("producers_come_from_the_tier")


def test_after_a_power_cut_a_follower_still_knows_what_the_tier_said_of_the_past() -> None:
    holds("power_cut_after_building")


def test_every_transcript_has_a_test_of_its_own() -> None:
    source = Path(__file__).read_text()
    assert [name for name in SCENARIOS if f'holds("{name}")' not in source] == []


@pytest.mark.parametrize("name", sorted(set(SCENARIOS) - ONE_WAY_ONLY))
def test_the_scenario_holds_when_followers_ask_with_offset_for_leader_epoch(name: str) -> None:
    scenario = TieredScenario((FOLDER / f"{name}.txt").read_text())
    scenario.lines.insert(0, "old fetches")
    scenario.run()


@pytest.mark.parametrize(
    ("name", "safeguard"),
    ABLATIONS,
    ids=lambda value: value if isinstance(value, str) else value.name.lower(),
)
def test_without_its_safeguard_the_scenario_does_not_hold(name: str, safeguard: Safeguard) -> None:
    with pytest.raises(AssertionError):
        TieredScenario((FOLDER / f"{name}.txt").read_text(), frozenset({safeguard})).run()
