"""Invariants that are checked after every step of a node.

Each function checks the node that made the step, and raises Violation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

from tests.sim.quorum.records import voters_in
from tests.sim.quorum.violation import Violation
from tidelog.cluster.quorum.effects import SnapshotLoaded
from tidelog.cluster.quorum.states import State
from tidelog.cluster.quorum.voter_set import ReplicaKey, VoterSet

if TYPE_CHECKING:
    from tests.sim.quorum.cluster import SimulatedCluster
    from tests.sim.quorum.node import SimNode
    from tidelog.cluster.quorum.effects import Effect


class History:
    """The elections, votes and fetches of a run, for invariants across nodes and restarts."""

    def __init__(self) -> None:
        self.leaders: dict[int, int] = {}
        """Epoch -> its leader."""
        self.announcements: dict[int, tuple[int, int]] = {}
        """Epoch -> (node, life) that announced itself as its leader."""
        self.votes: dict[tuple[int, int, UUID], tuple[int, UUID]] = {}
        """(epoch, voter, its directory) -> the candidate that received the vote."""
        self.fetch_times_ms: dict[int, dict[int, int]] = {}
        """Leader -> voter -> time of that voter's last fetch from the leader."""
        self.leading_since: dict[int, tuple[int, tuple[int, ...]]] = {}
        """Leader -> (time since which it has led these voters, the voters)."""
        self.steady_epoch: int | None = None
        """The first epoch in which all nodes had the same leader."""


def one_leader_per_epoch(cluster: SimulatedCluster, node: SimNode) -> None:
    """Check that an epoch has at most one leader."""
    quorum = node.quorum
    assert quorum is not None
    if quorum.state is not State.LEADER:
        return
    leader = cluster.history.leaders.setdefault(quorum.epoch, node.id)
    if leader != node.id:
        raise Violation("one_leader_per_epoch", f"epoch {quorum.epoch} is led by {node.id} and by {leader}")


def an_epoch_is_led_in_one_life(cluster: SimulatedCluster, node: SimNode, epoch: int) -> None:
    """Check that an announced leader does not lead the epoch after a restart: it may have lost records."""
    leader = cluster.history.announcements.setdefault(epoch, (node.id, node.life))
    if leader != (node.id, node.life):
        raise Violation(
            "one_leader_per_epoch", f"epoch {epoch} is led by {(node.id, node.life)} and by {leader}"
        )


def leaders_have_a_majority_of_votes(cluster: SimulatedCluster, node: SimNode) -> None:
    """Check that a leader has votes of a majority of the voters that it knows, in its epoch."""
    quorum = node.quorum
    assert quorum is not None
    if quorum.state is not State.LEADER or cluster.elections.get(node.id) == (node.life, quorum.epoch):
        return
    cluster.elections[node.id] = (node.life, quorum.epoch)
    votes = cluster.history.votes
    me = (node.id, node.disk.directory_id)
    granted = 0
    for voter in quorum.voters:
        if voter.id == node.id:
            granted += 1
            continue
        disks = [disk for disk in cluster.disks_of(voter.key) if (quorum.epoch, *disk) in votes]
        granted += any(votes[quorum.epoch, *disk] == me for disk in disks)
    if granted < quorum.voters.majority:
        raise Violation(
            "leaders_have_a_majority_of_votes",
            f"node {node.id} leads epoch {quorum.epoch} with {granted} votes of {quorum.voters.ids}",
        )


def epochs_never_go_back(cluster: SimulatedCluster, node: SimNode) -> None:
    """Check that a process never lowers its epoch, and a restart never below a reported one."""
    quorum = node.quorum
    assert quorum is not None
    if quorum.epoch < node.epoch:
        raise Violation("epochs_never_go_back", f"node {node.id}: {node.epoch} to {quorum.epoch}")
    if quorum.epoch < node.disk.sent_epoch:
        raise Violation(
            "epochs_never_go_back",
            f"node {node.id} sent epoch {node.disk.sent_epoch} to other nodes and is in {quorum.epoch}",
        )
    node.epoch = quorum.epoch


def high_watermarks_never_go_back(cluster: SimulatedCluster, node: SimNode) -> None:
    """Check that the high watermark never decreases within a process."""
    high_watermark = node.disk.log.high_watermark
    if high_watermark < node.high_watermark:
        raise Violation(
            "high_watermarks_never_go_back", f"node {node.id}: {node.high_watermark} to {high_watermark}"
        )
    node.high_watermark = high_watermark


def committed_data_agrees(cluster: SimulatedCluster, node: SimNode) -> None:
    """Check that all nodes agree on committed data (Kafka's ConsistentCommittedData)."""
    log, ledger, quorum = node.disk.log, cluster.ledger, node.quorum
    assert quorum is not None
    if node.checked_to < log.start_offset:
        node.checked_to = log.start_offset
    while node.checked_to < log.high_watermark:
        batch = log.batch_at(node.checked_to)
        assert batch is not None, f"node {node.id} has nothing at {node.checked_to}"
        committed_batch = ledger.batch_at(node.checked_to)
        if committed_batch is None:
            committed_entries_are_on_a_majority(cluster, node)
            ledger.extend(batch, quorum.epoch)
        elif committed_batch is not batch and committed_batch != batch:
            raise Violation(
                "committed_data_agrees",
                f"node {node.id} commits {batch}, elsewhere committed is {committed_batch}",
            )
        node.checked_to = batch.next_offset


def committed_entries_are_on_a_majority(cluster: SimulatedCluster, node: SimNode) -> None:
    """Check that only a leader advances the commit, and only to records that a majority has on disk.

    A leader that commits its own removal resigns in the same step.
    """
    quorum, log = node.quorum, node.disk.log
    assert quorum is not None
    if "committed_entries_are_on_a_majority" in cluster.ignored_invariants:
        return
    was_elected = cluster.elections.get(node.id) == (node.life, quorum.epoch)
    if quorum.state is not State.LEADER and not (quorum.state is State.RESIGNED and was_elected):
        raise Violation(
            "committed_entries_are_on_a_majority",
            f"node {node.id} is {quorum.state.name} and commits {log.high_watermark} before any leader",
        )
    copies = sum(cluster.has_durably(voter.key, log, log.high_watermark) for voter in quorum.voters)
    if copies < quorum.voters.majority:
        raise Violation(
            "committed_entries_are_on_a_majority",
            f"node {node.id} commits {log.high_watermark}, durable at {copies} of {quorum.voters.ids}",
        )


def committed_entries_are_not_truncated(cluster: SimulatedCluster, node: SimNode) -> None:
    """Check that no log truncates a committed entry, even below a node's own high watermark.

    A node that has not reached the epoch of the commit is exempt. Its copy did not count for the commit, and
    a leader of an earlier epoch may still request the truncation.
    """
    quorum = node.quorum
    assert quorum is not None
    for batch in node.truncated_batches:
        epoch = cluster.ledger.commit_epoch_of(batch)
        if epoch is not None and quorum.epoch >= epoch:
            raise Violation(
                "committed_entries_are_not_truncated",
                f"node {node.id} drops offset {batch.base_offset} of epoch {batch.epoch}",
            )


def voters_change_one_at_a_time(cluster: SimulatedCluster, node: SimNode) -> None:
    """Check that a leader has at most one uncommitted voter set, one voter away from the previous one."""
    quorum, log = node.quorum, node.disk.log
    assert quorum is not None
    if quorum.state is not State.LEADER or not any(batch.is_control for batch in node.appended_batches):
        return
    if all(voters_in(batch.data) is None for batch in node.appended_batches):
        return
    sets = cluster.voter_sets_in(log)
    uncommitted = [offset for offset, _ in sets if offset >= log.high_watermark]
    if len(uncommitted) > 1:
        raise Violation("voters_change_one_at_a_time", f"node {node.id} has voter sets at {uncommitted}")
    if len(sets) > 1 and not _differ_by_one_at_most(_with_names_of(sets[-2][1], sets[-1][1]), sets[-1][1]):
        raise Violation(
            "voters_change_one_at_a_time", f"node {node.id}: {sets[-2][1]} and then {sets[-1][1]}"
        )


def _with_names_of(before: VoterSet, after: VoterSet) -> VoterSet:
    """Return the older set with the directory ids that an upgrade of static voters added."""
    directory_ids = {
        voter.id: voter.key.directory_id for voter in after if voter.key.directory_id is not None
    }
    return VoterSet.of(
        replace(voter, key=ReplicaKey(voter.id, voter.key.directory_id or directory_ids.get(voter.id)))
        for voter in before
    )


def _differ_by_one_at_most(before: VoterSet, after: VoterSet) -> bool:
    """Return whether any two majorities of the sets share a voter."""
    old, new = {voter.key for voter in before}, {voter.key for voter in after}
    return len(old - new) <= 1 and len(new - old) <= 1


def a_log_starts_at_zero_or_a_snapshot(cluster: SimulatedCluster, node: SimNode) -> None:
    """Check that a log starts at 0 or at a snapshot, and does not end before the latest snapshot."""
    log = node.disk.log
    if log.start_offset == 0:
        return
    if (log.start_offset, log.start_epoch) not in log.snapshots:
        raise Violation(
            "a_log_starts_at_zero_or_a_snapshot",
            f"node {node.id} starts at {log.start_offset}, snapshots are {list(log.snapshots)}",
        )
    latest = log.latest_snapshot()
    assert latest is not None
    if latest.end_offset > log.end_offset:
        raise Violation(
            "a_log_starts_at_zero_or_a_snapshot",
            f"node {node.id} has snapshot {latest} and ends at {log.end_offset}",
        )


def leaders_load_no_snapshot(cluster: SimulatedCluster, node: SimNode, effects: list[Effect]) -> None:
    """Check that a leader loads no snapshot (Kafka's LeaderNeverLoadSnapshot)."""
    quorum = node.quorum
    assert quorum is not None
    if quorum.state is State.LEADER and any(isinstance(effect, SnapshotLoaded) for effect in effects):
        raise Violation("leaders_load_no_snapshot", f"node {node.id} in epoch {quorum.epoch}")


def leaders_get_fetches_of_a_majority(cluster: SimulatedCluster, node: SimNode) -> None:
    """Check that a leader without fetches of a majority resigns (KAFKA-15489)."""
    quorum, history = node.quorum, cluster.history
    assert quorum is not None
    if quorum.state is not State.LEADER:
        history.leading_since.pop(node.id, None)
        return
    # A changed voter set gets its own timeout.
    since, voters = history.leading_since.get(node.id, (0, ()))
    if voters != quorum.voters.ids:
        since = cluster.now
        history.leading_since[node.id] = since, quorum.voters.ids
    others = [voter.id for voter in quorum.voters if voter.id != node.id]
    needed = quorum.voters.majority - (len(others) < len(quorum.voters))
    if not needed:
        return
    fetch_times_ms = history.fetch_times_ms.get(node.id, {})
    times = sorted((fetch_times_ms.get(voter, 0) for voter in others), reverse=True)
    last = max(times[needed - 1], since, node.ran_since)
    if cluster.now - last > cluster.quiet_max:
        raise Violation(
            "leaders_get_fetches_of_a_majority",
            f"node {node.id} leads epoch {quorum.epoch} at {cluster.now}, a majority last fetched at {last}",
        )


def requests_get_responses_in_time(cluster: SimulatedCluster, node: SimNode) -> None:
    """Check that a processed request gets a response within its maximum wait time."""
    if not node.open_requests:
        return
    request, since = next(iter(node.open_requests.items()))
    if cluster.now - max(since, node.ran_since) > cluster.settings.fetch_max_wait_ms + 4_000:
        raise Violation("requests_get_responses_in_time", f"node {node.id} since {since}: {request}")


def steady_leaders_stay(cluster: SimulatedCluster, node: SimNode) -> None:
    """Check that no node raises the epoch while the leader and a majority are healthy (KIP-996)."""
    quorum, history = node.quorum, cluster.history
    assert quorum is not None
    if not cluster.swarm.steady:
        return
    if history.steady_epoch is None:
        leader_views = {
            (each.quorum.epoch, each.quorum.leader_id) if each.quorum is not None else (0, None)
            for each in cluster.nodes.values()
        }
        if len(leader_views) == 1 and quorum.leader_id is not None:
            history.steady_epoch = quorum.epoch
    elif quorum.epoch > history.steady_epoch:
        raise Violation(
            "steady_leaders_stay",
            f"node {node.id} is {quorum.state.name} in epoch {quorum.epoch}, not {history.steady_epoch}",
        )


def votes_are_given_once(
    cluster: SimulatedCluster, voter: ReplicaKey, epoch: int, candidate: tuple[int, UUID]
) -> None:
    """Check that a replica votes for at most one candidate per epoch, across restarts."""
    assert voter.directory_id is not None
    first_candidate = cluster.history.votes.setdefault((epoch, voter.id, voter.directory_id), candidate)
    if first_candidate != candidate:
        raise Violation(
            "votes_are_given_once", f"{voter} in epoch {epoch}: {first_candidate} and {candidate}"
        )


AFTER_EVERY_STEP: tuple[Callable[[SimulatedCluster, SimNode], None], ...] = (
    one_leader_per_epoch,
    leaders_have_a_majority_of_votes,
    epochs_never_go_back,
    high_watermarks_never_go_back,
    committed_data_agrees,
    committed_entries_are_not_truncated,
    voters_change_one_at_a_time,
    a_log_starts_at_zero_or_a_snapshot,
    leaders_get_fetches_of_a_majority,
    requests_get_responses_in_time,
    steady_leaders_stay,
)
