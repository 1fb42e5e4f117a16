"""Every transcript of this folder passes, and fails without the rule that it tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.replication.scenario import Scenario
from tests.sim.replication.safeguards import Safeguard

FOLDER = Path(__file__).parent
SCENARIOS = sorted(path.stem for path in FOLDER.glob("*.txt"))

# These count single fetches of version 12, or state the kind of a fetch.
ONE_WAY_ONLY = {
    "damaged_leader",
    "kafka_7128_joining_too_early",
    "kip_101_scenario_1",
    "kip_320_fencing",
    "kip_320_kafka_6880",
    "kip_841_fenced_follower",
    "kip_903_late_fetch",
    "kip_903_wiped_disk",
    "leader_returns_after_two_elections",
}


ABLATIONS = [
    ("kip_101_scenario_1", Safeguard.TRUNCATION_BY_EPOCH),
    ("kip_101_scenario_2", Safeguard.TRUNCATION_BY_EPOCH),
    ("kip_101_scenario_2", Safeguard.TRUNCATION_BEFORE_FETCHING),
    ("kip_279_back_to_back", Safeguard.EPOCHS_ITERATED),
    ("kip_279_back_to_back", Safeguard.TRUNCATION_BEFORE_FETCHING),
    ("kip_279_three_failovers", Safeguard.EPOCHS_ITERATED),
    ("kip_279_nothing_in_common", Safeguard.TRUNCATION_BEFORE_FETCHING),
    ("kip_279_without_records", Safeguard.EPOCH_NOTED_ON_ELECTION),
    ("kip_595_diverging_epoch", Safeguard.TRUNCATION_BY_EPOCH),
    ("kip_320_fencing", Safeguard.LEADER_EPOCH_FENCING),
    ("kip_320_fenced_follower", Safeguard.LEADER_EPOCH_FENCING),
    ("kip_320_kafka_6880", Safeguard.LEADER_EPOCH_FENCING),
    ("kip_320_kafka_7164", Safeguard.TRUNCATION_BEFORE_FETCHING),
    ("kip_320_consumer", Safeguard.LEADER_EPOCH_FENCING),
    ("kafka_7128_joining_too_early", Safeguard.EPOCH_START_BEFORE_JOINING),
    ("kip_903_wiped_disk", Safeguard.BROKER_EPOCH_BEFORE_JOINING),
    ("kip_903_late_fetch", Safeguard.STALE_INCARNATION_REFUSED),
    ("kip_841_fenced_follower", Safeguard.FENCED_STAY_OUT),
    ("leader_returns_after_two_elections", Safeguard.POSITIONS_OF_ONE_EPOCH),
    ("kip_966_last_replica", Safeguard.MIN_ISR_FOR_HIGH_WATERMARK),
    ("epoch_driven_divergent_logs", Safeguard.TRUNCATION_BY_EPOCH),
    ("epoch_driven_offsets_go_forward", Safeguard.TRUNCATION_BY_EPOCH),
    ("epoch_driven_unclean_elections", Safeguard.EPOCHS_ITERATED),
    ("kip_405_unclean_1", Safeguard.TRUNCATION_BY_EPOCH),
    ("kip_405_unclean_2", Safeguard.TRUNCATION_BY_EPOCH),
    ("kip_405_hard_failures", Safeguard.TRUNCATION_BY_EPOCH),
    ("kip_405_log_divergence", Safeguard.EPOCHS_ITERATED),
]
"""A scenario, and a rule without which it fails."""


def run_scenario_of(name: str) -> None:
    Scenario.of(FOLDER / f"{name}.txt").run()


def test_kip_101_a_follower_elected_after_a_restart_has_all_acknowledged_records() -> None:
    run_scenario_of("kip_101_scenario_1")


def test_kip_101_replicas_are_equal_after_a_power_failure_of_both() -> None:
    run_scenario_of("kip_101_scenario_2")


def test_kip_279_a_leader_without_the_followers_epoch_returns_the_largest_below_it() -> None:
    run_scenario_of("kip_279_back_to_back")


def test_kip_279_a_leader_without_records_knows_the_start_of_its_epoch() -> None:
    run_scenario_of("kip_279_without_records")


def test_kip_101_an_epoch_ends_at_the_start_of_the_next_one() -> None:
    run_scenario_of("kip_101_epochs_over_restarts")


def test_kip_279_logs_without_a_common_epoch_are_truncated_to_their_start() -> None:
    run_scenario_of("kip_279_nothing_in_common")


def test_kip_595_a_fetch_response_has_the_diverging_epoch() -> None:
    run_scenario_of("kip_595_diverging_epoch")


def test_kip_279_three_consecutive_failovers_need_two_epoch_requests() -> None:
    run_scenario_of("kip_279_three_failovers")


def test_kip_320_a_zombie_leader_commits_nothing_and_truncates_its_records() -> None:
    run_scenario_of("kip_320_zombie_leader")


def test_kip_320_a_leader_with_stale_metadata_is_ignored() -> None:
    run_scenario_of("kip_320_fencing")


def test_kip_320_a_follower_with_stale_metadata_is_fenced() -> None:
    run_scenario_of("kip_320_fenced_follower")


def test_kafka_6880_a_zombie_follower_is_fenced_although_its_log_matches_again() -> None:
    run_scenario_of("kip_320_kafka_6880")


def test_kafka_7164_a_follower_truncates_at_a_new_epoch_of_the_same_leader() -> None:
    run_scenario_of("kip_320_kafka_7164")


def test_kip_320_consumers_detect_epoch_changes_and_truncation() -> None:
    run_scenario_of("kip_320_consumer")


def test_kafka_7128_a_follower_below_the_epoch_start_does_not_join_the_isr() -> None:
    run_scenario_of("kafka_7128_joining_too_early")


def test_kip_903_a_broker_that_lost_its_disk_is_not_added_to_the_isr_by_a_stale_request() -> None:
    run_scenario_of("kip_903_wiped_disk")


def test_kip_903_a_late_fetch_with_a_stale_broker_epoch_is_refused() -> None:
    run_scenario_of("kip_903_late_fetch")


def test_kip_841_a_fenced_follower_is_not_proposed_for_the_isr() -> None:
    run_scenario_of("kip_841_fenced_follower")


def test_kip_966_the_last_in_sync_replica_commits_nothing_alone() -> None:
    run_scenario_of("kip_966_last_replica")


def test_kip_405_after_unclean_election_the_first_leader_is_truncated_to_the_new_one() -> None:
    run_scenario_of("kip_405_unclean_1")


def test_kip_405_after_crashes_of_both_the_log_of_the_next_leader_is_used() -> None:
    run_scenario_of("kip_405_hard_failures")


def test_kip_405_after_two_unclean_elections_logs_are_equal() -> None:
    run_scenario_of("kip_405_log_divergence")


def test_kip_405_after_consecutive_unclean_elections_the_last_leaders_log_is_used() -> None:
    run_scenario_of("kip_405_unclean_2")


def test_kip_405_after_unclean_election_of_an_empty_replica_all_logs_restart() -> None:
    run_scenario_of("kip_405_unclean_empty_leader")


def test_epoch_driven_a_follower_learns_an_epoch_with_its_first_record() -> None:
    run_scenario_of("epoch_driven_basic_workflow")


def test_epoch_driven_logs_do_not_diverge_after_a_leader_lost_half_of_its_log() -> None:
    run_scenario_of("epoch_driven_divergent_logs")


def test_epoch_driven_offsets_do_not_decrease_when_a_log_ends_within_a_batch() -> None:
    run_scenario_of("epoch_driven_offsets_go_forward")


def test_epoch_driven_fast_leader_changes_lose_nothing() -> None:
    run_scenario_of("epoch_driven_fast_leader_change")


def test_epoch_driven_logs_do_not_diverge_after_alternating_unclean_elections() -> None:
    run_scenario_of("epoch_driven_unclean_elections")


def test_follower_positions_are_discarded_after_an_unknown_intermediate_leader() -> None:
    run_scenario_of("leader_returns_after_two_elections")


def test_corruption_of_a_follower_is_repaired_from_the_leader() -> None:
    run_scenario_of("damaged_follower")


def test_corruption_of_a_leader_is_not_replicated_and_the_next_leader_has_the_record() -> None:
    run_scenario_of("damaged_leader")


def test_a_truncated_tail_of_a_follower_is_fetched_from_the_leader() -> None:
    run_scenario_of("truncated_follower")


def test_every_transcript_has_a_test() -> None:
    source = Path(__file__).read_text()
    assert [name for name in SCENARIOS if f'run_scenario_of("{name}")' not in source] == []


def test_every_transcript_names_the_source_of_its_offsets_and_epochs() -> None:
    texts = {name: (FOLDER / f"{name}.txt").read_text() for name in SCENARIOS}
    assert [name for name, text in texts.items() if "\n# Offsets: " not in text] == []


@pytest.mark.parametrize("name", sorted(set(SCENARIOS) - ONE_WAY_ONLY))
def test_the_scenario_holds_with_offset_for_leader_epoch_requests(name: str) -> None:
    scenario = Scenario.of(FOLDER / f"{name}.txt")
    scenario.lines.insert(0, "old fetches")
    scenario.run()


@pytest.mark.parametrize(
    ("name", "safeguard"),
    ABLATIONS,
    ids=lambda value: value if isinstance(value, str) else value.name.lower(),
)
def test_the_scenario_fails_without_its_safeguard(name: str, safeguard: Safeguard) -> None:
    with pytest.raises(AssertionError):
        Scenario.of(FOLDER / f"{name}.txt", frozenset({safeguard})).run()


def test_without_repeated_epoch_requests_older_followers_keep_divergent_records() -> None:
    path = FOLDER / "kip_279_three_failovers.txt"
    scenario = Scenario.of(path, frozenset({Safeguard.EPOCHS_ITERATED}))
    scenario.lines.insert(0, "old fetches")
    with pytest.raises(AssertionError):
        scenario.run()


def test_an_unknown_command_is_reported() -> None:
    with pytest.raises(AssertionError, match="line 2, 'dance A'"):
        Scenario("replicas A B, min isr 1\ndance A").run()
