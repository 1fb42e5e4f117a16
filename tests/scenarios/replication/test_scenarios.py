"""Every transcript of this folder holds, and does not without the rule that it is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.replication.scenario import Scenario
from tests.sim.replication.safeguards import Safeguard

FOLDER = Path(__file__).parent
SCENARIOS = sorted(path.stem for path in FOLDER.glob("*.txt"))

# What counts single fetches of the new kind, or says in which kind they are.
ONE_WAY_ONLY = {
    "damaged_leader",
    "kafka_7128_joining_too_early",
    "kip_101_scenario_1",
    "kip_320_fencing",
    "kip_320_kafka_6880",
    "kip_841_fenced_follower",
    "kip_903_late_fetch",
    "kip_903_wiped_disk",
    "leader_returns_unheard",
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
    ("leader_returns_unheard", Safeguard.POSITIONS_OF_ONE_EPOCH),
    ("kip_966_last_replica", Safeguard.MIN_ISR_FOR_HIGH_WATERMARK),
    ("epoch_driven_divergent_logs", Safeguard.TRUNCATION_BY_EPOCH),
    ("epoch_driven_offsets_go_forward", Safeguard.TRUNCATION_BY_EPOCH),
    ("epoch_driven_unclean_elections", Safeguard.EPOCHS_ITERATED),
    ("kip_405_unclean_1", Safeguard.TRUNCATION_BY_EPOCH),
    ("kip_405_unclean_2", Safeguard.TRUNCATION_BY_EPOCH),
    ("kip_405_hard_failures", Safeguard.TRUNCATION_BY_EPOCH),
    ("kip_405_log_divergence", Safeguard.EPOCHS_ITERATED),
]
"""A scenario, and a rule without which it does not hold."""


def holds(name: str) -> None:
    Scenario.of(FOLDER / f"{name}.txt").run()


def test_kip_101_a_follower_that_is_elected_right_after_a_restart_has_what_was_acknowledged() -> None:
    holds("kip_101_scenario_1")


def test_kip_101_after_a_power_cut_of_both_the_replicas_do_not_differ() -> None:
    holds("kip_101_scenario_2")


def test_kip_279_a_leader_that_lacks_the_followers_epoch_names_the_largest_below_it() -> None:
    holds("kip_279_back_to_back")


def test_kip_279_a_leader_without_records_has_noted_where_its_epoch_starts() -> None:
    holds("kip_279_without_records")


def test_kip_101_epochs_end_where_the_next_one_that_had_a_leader_began() -> None:
    holds("kip_101_epochs_over_restarts")


def test_kip_279_logs_that_have_no_epoch_in_common_are_cut_to_their_start() -> None:
    holds("kip_279_nothing_in_common")


def test_kip_595_the_answer_to_a_fetch_says_where_the_logs_part() -> None:
    holds("kip_595_diverging_epoch")


def test_kip_279_three_fast_failovers_need_two_questions() -> None:
    holds("kip_279_three_failovers")


def test_kip_320_a_zombie_leader_commits_nothing_and_loses_what_it_took() -> None:
    holds("kip_320_zombie_leader")


def test_kip_320_a_leader_that_is_behind_with_its_metadata_is_not_believed() -> None:
    holds("kip_320_fencing")


def test_kip_320_a_follower_that_is_behind_with_its_metadata_is_fenced() -> None:
    holds("kip_320_fenced_follower")


def test_kafka_6880_a_zombie_follower_whose_tail_fits_again_is_fenced() -> None:
    holds("kip_320_kafka_6880")


def test_kafka_7164_a_follower_cuts_its_log_at_a_new_epoch_of_the_same_leader() -> None:
    holds("kip_320_kafka_7164")


def test_kip_320_consumers_learn_of_other_epochs_and_where_their_history_ends() -> None:
    holds("kip_320_consumer")


def test_kafka_7128_who_lacks_what_came_before_the_epoch_start_does_not_join_the_isr() -> None:
    holds("kafka_7128_joining_too_early")


def test_kip_903_a_broker_that_lost_its_disk_is_not_put_into_the_isr_by_an_old_request() -> None:
    holds("kip_903_wiped_disk")


def test_kip_903_a_fetch_of_an_earlier_incarnation_that_comes_late_is_refused() -> None:
    holds("kip_903_late_fetch")


def test_kip_841_a_fenced_follower_is_not_proposed_for_the_isr() -> None:
    holds("kip_841_fenced_follower")


def test_kip_966_the_last_replica_in_sync_commits_nothing_alone() -> None:
    holds("kip_966_last_replica")


def test_kip_405_after_an_unclean_election_the_first_leader_is_cut_to_the_new_one() -> None:
    holds("kip_405_unclean_1")


def test_kip_405_after_hard_failures_of_both_the_log_of_the_next_leader_counts() -> None:
    holds("kip_405_hard_failures")


def test_kip_405_after_two_unclean_elections_there_is_one_history() -> None:
    holds("kip_405_log_divergence")


def test_kip_405_after_unclean_elections_in_a_row_the_last_leaders_log_counts() -> None:
    holds("kip_405_unclean_2")


def test_kip_405_after_an_unclean_election_of_an_empty_replica_all_logs_restart() -> None:
    holds("kip_405_unclean_empty_leader")


def test_epoch_driven_an_epoch_reaches_the_follower_with_its_first_record() -> None:
    holds("epoch_driven_basic_workflow")


def test_epoch_driven_a_leader_that_lost_half_of_its_log_does_not_let_the_logs_diverge() -> None:
    holds("epoch_driven_divergent_logs")


def test_epoch_driven_offsets_do_not_go_backwards_when_a_log_ends_within_a_batch_of_the_leader() -> None:
    holds("epoch_driven_offsets_go_forward")


def test_epoch_driven_fast_leader_changes_lose_nothing() -> None:
    holds("epoch_driven_fast_leader_change")


def test_epoch_driven_logs_do_not_diverge_after_unclean_elections_alternately() -> None:
    holds("epoch_driven_unclean_elections")


def test_what_a_leader_knew_of_followers_does_not_outlive_another_leader_that_it_never_learned_of() -> None:
    holds("leader_returns_unheard")


def test_corruption_of_a_follower_is_not_spread_and_mended_from_the_leader() -> None:
    holds("damaged_follower")


def test_corruption_of_a_leader_is_not_copied_and_the_record_comes_from_the_next_one() -> None:
    holds("damaged_leader")


def test_a_torn_tail_of_a_follower_comes_back_from_the_leader() -> None:
    holds("torn_follower")


def test_every_transcript_has_a_test_of_its_own() -> None:
    source = Path(__file__).read_text()
    assert [name for name in SCENARIOS if f'holds("{name}")' not in source] == []


def test_every_transcript_says_where_its_offsets_and_epochs_are_from() -> None:
    texts = {name: (FOLDER / f"{name}.txt").read_text() for name in SCENARIOS}
    assert [name for name, text in texts.items() if "\n# Numbers: " not in text] == []


@pytest.mark.parametrize("name", sorted(set(SCENARIOS) - ONE_WAY_ONLY))
def test_the_scenario_holds_when_followers_ask_with_offset_for_leader_epoch(name: str) -> None:
    scenario = Scenario.of(FOLDER / f"{name}.txt")
    scenario.lines.insert(0, "old fetches")
    scenario.run()


@pytest.mark.parametrize(
    ("name", "safeguard"),
    ABLATIONS,
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
