"""Bugs of other quorum implementations, by name; each has a transcript in this folder.

Where possible, a test proves that the transcript detects the bug: without the safeguard it fails.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sim.quorum.safeguards import Safeguard
from tests.sim.quorum.scenario import run_scenario

FOLDER = Path(__file__).parent


def run_and_ablate(name: str, *needed: Safeguard) -> None:
    """Run the scenario; then check that it fails without any one of the `needed` safeguards."""
    run_scenario(FOLDER / f"{name}.txt")
    for safeguard in needed:
        with pytest.raises(AssertionError):
            run_scenario(FOLDER / f"{name}.txt", frozenset((safeguard,)))


def test_kip_996_an_isolated_voter_does_not_raise_the_epoch() -> None:
    run_and_ablate("partitioned_voter_does_not_disrupt", Safeguard.PRE_VOTE)


def test_kip_996_followers_with_a_live_leader_refuse_pre_votes() -> None:
    run_and_ablate("pre_vote", Safeguard.PRE_VOTE_REJECTED_WHILE_LEADER_IS_ALIVE)


def test_kafka_15489_a_leader_without_fetches_of_a_majority_resigns() -> None:
    run_and_ablate("leader_without_majority_resigns", Safeguard.CHECK_QUORUM)


def test_kip_853_a_voter_that_lost_its_disk_does_not_vote_twice() -> None:
    run_and_ablate("wiped_voter_cannot_vote_twice", Safeguard.DIRECTORY_ID_CHECKED)


def test_kafka_14077_a_voter_with_a_failed_disk_is_removed_and_added() -> None:
    run_and_ablate("failed_disk_is_replaced")


def test_kafka_20740_two_concurrent_voter_changes_are_refused() -> None:
    run_and_ablate("two_voter_changes_at_once_are_refused", Safeguard.ONE_VOTER_CHANGE_AT_A_TIME)


def test_kip_853_an_uncommitted_voter_change_is_reverted() -> None:
    run_and_ablate("uncommitted_voter_change_is_undone")


def test_kafka_12460_a_follower_stops_instead_of_truncating_committed_metadata() -> None:
    run_and_ablate("committed_records_are_not_truncated", Safeguard.NEVER_TRUNCATE_COMMITTED)


def test_fsync_a_vote_is_kept_across_a_power_failure() -> None:
    run_and_ablate(
        "one_vote_in_an_epoch", Safeguard.VOTE_DURABLE_BEFORE_RESPONSE, Safeguard.ONE_VOTE_PER_EPOCH
    )


def test_fsync_committed_metadata_survives_a_power_failure_of_all_nodes() -> None:
    run_and_ablate(
        "committed_records_survive_a_power_cut",
        Safeguard.LOG_FLUSHED_BEFORE_ACKNOWLEDGE,
        Safeguard.LOG_UP_TO_DATE_FOR_VOTE,
    )
