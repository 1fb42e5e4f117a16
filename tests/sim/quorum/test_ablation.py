"""Without each safeguard of the quorum the simulator finds the violation in the table."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from tests.sim.quorum.run import run_seed
from tests.sim.quorum.safeguards import Safeguard
from tests.sim.quorum.scenario import run_scenario
from tests.sim.quorum.swarm import Swarm, Voters
from tests.sim.quorum.violation import Violation
from tests.support.paths import SCENARIOS

SEEDS = 300
QUORUM_SCENARIOS = SCENARIOS / "quorum"

CRASHES = Swarm(
    crash_every=700, crash_leader=0.5, down_max=600, lose_unsynced=1.0, persist_max=20, append_every=60
)
SLOW_DISKS = replace(CRASHES, slow_persist=0.2, persist_max=100, crash_leader=0.9)
QUICK_RESTARTS = replace(
    CRASHES,
    crash_every=300,
    crash_leader=0.0,
    down_max=30,
    slow_persist=0.3,
    latency_max=50,
    election_timeout=300,
    fetch_timeout=600,
)
WIPES = replace(CRASHES, mode=Voters.DYNAMIC, wipe_every=1_500)
CUTS = Swarm(partition_every=1_500, one_way=0.3, partition_max=6_000)
CHANGES = replace(CUTS, observers=2, mode=Voters.DYNAMIC, voter_change_every=400)
SMALL_FETCHES = Swarm(
    partition_every=800,
    one_way=0.5,
    crash_leader=1.0,
    partition_max=3_000,
    fetch_max_bytes=100,
    append_every=60,
    latency_max=100,
    safety_ms=20_000,
)
CUT_FOLLOWERS = Swarm(isolate_every=3_000, partition_max=9_000, append_every=2_000, steady=True)


@dataclass(frozen=True)
class Ablation:
    """Faults that reveal the missing safeguard, and the invariants that are then violated.

    Violations of `ignored_invariants` are not reported: they would be found before the consequences.
    `first_seed` only saves time: a search from seed 0 also finds the violation.
    """

    faults: Swarm
    violated: tuple[str, ...]
    ignored_invariants: frozenset[str] = frozenset()
    first_seed: int = 0


LOST = ("committed_data_agrees", "committed_entries_are_not_truncated", "no_leader_lacks_committed_records")
ABLATIONS = {
    # An isolated voter returns with a higher epoch and ends a leader that all others follow.
    Safeguard.PRE_VOTE: Ablation(CUT_FOLLOWERS, ("steady_leaders_stay",)),
    # The same, if it was isolated only from the leader: the others elect it.
    Safeguard.PRE_VOTE_REJECTED_WHILE_LEADER_IS_ALIVE: Ablation(CUT_FOLLOWERS, ("steady_leaders_stay",)),
    # An isolated leader stays leader forever.
    Safeguard.CHECK_QUORUM: Ablation(CUTS, ("leaders_get_fetches_of_a_majority",)),
    # A power failure loses the vote, and the node votes for another candidate.
    Safeguard.VOTE_DURABLE_BEFORE_RESPONSE: Ablation(
        QUICK_RESTARTS, ("votes_are_given_once", "one_leader_per_epoch"), frozenset(("epochs_never_go_back",))
    ),
    # Committed records are lost after a power failure of the nodes that acknowledged them.
    Safeguard.LOG_FLUSHED_BEFORE_ACKNOWLEDGE: Ablation(
        SLOW_DISKS, LOST, frozenset(("committed_entries_are_on_a_majority",))
    ),
    # Figure 8 of the Raft paper: a record of an old epoch is committed and then overwritten.
    Safeguard.COMMIT_ONLY_OWN_EPOCH: Ablation(SMALL_FETCHES, LOST, first_seed=74),
    # A leader without committed records is elected.
    Safeguard.LOG_UP_TO_DATE_FOR_VOTE: Ablation(CRASHES, LOST),
    # A leader has two uncommitted voter sets without a common majority.
    Safeguard.ONE_VOTER_CHANGE_AT_A_TIME: Ablation(CHANGES, ("voters_change_one_at_a_time",)),
    # Two candidates get the same vote.
    Safeguard.ONE_VOTE_PER_EPOCH: Ablation(CRASHES, ("votes_are_given_once", "one_leader_per_epoch")),
    # A voter that lost its disk counts with records that it no longer has.
    Safeguard.DIRECTORY_ID_CHECKED: Ablation(
        WIPES, ("committed_entries_are_on_a_majority", "leaders_have_a_majority_of_votes", *LOST)
    ),
}
DIRECTED = {
    # A follower truncates committed records because a leader without them requests it.
    Safeguard.NEVER_TRUNCATE_COMMITTED: (
        "committed_records_are_not_truncated.txt",
        "committed_entries_are_not_truncated",
    ),
}


@pytest.mark.parametrize("safeguard", ABLATIONS, ids=lambda safeguard: safeguard.name)
def test_without_a_safeguard_the_simulator_finds_a_violation(safeguard: Safeguard) -> None:
    ablation = ABLATIONS[safeguard]
    for seed in range(ablation.first_seed, ablation.first_seed + SEEDS):
        try:
            run_seed(seed, ablation.faults, frozenset((safeguard,)), ablation.ignored_invariants)
        except Violation as violation:
            if violation.invariant == "the_quorum_recovers":
                continue
            print(f"{safeguard.name}: seed {seed}: {violation}")
            assert violation.invariant in ablation.violated, f"seed {seed}: {violation}"
            break
    else:
        pytest.fail(f"{SEEDS} seeds and nothing is violated without {safeguard.name}")
    run_seed(seed, ablation.faults)


@pytest.mark.parametrize("safeguard", DIRECTED, ids=lambda safeguard: safeguard.name)
def test_without_a_safeguard_its_scenario_violates_an_invariant(safeguard: Safeguard) -> None:
    name, violated = DIRECTED[safeguard]
    run_scenario(QUORUM_SCENARIOS / name)
    with pytest.raises(AssertionError) as failure:
        run_scenario(QUORUM_SCENARIOS / name, frozenset((safeguard,)))
    assert isinstance(failure.value.__cause__, Violation), failure.value
    assert failure.value.__cause__.invariant == violated


def test_every_safeguard_is_removed_in_a_test() -> None:
    assert {*ABLATIONS, *DIRECTED} == set(Safeguard)
