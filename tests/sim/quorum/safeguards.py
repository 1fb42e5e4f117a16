"""The rules of the quorum that simulations remove one at a time, to show that each of them is needed."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, unique
from uuid import UUID

from tidelog.cluster.quorum.leader_state import VoterChange
from tidelog.cluster.quorum.outbox import Outbox
from tidelog.cluster.quorum.quorum_record import QuorumRecord
from tidelog.cluster.quorum.rules import Electable, QuorumRules
from tidelog.cluster.quorum.states import Role, State
from tidelog.cluster.quorum.voter_set import ReplicaKey
from tidelog.protocol.ids import Offset


@unique
class Safeguard(Enum):
    """The rules; each value states the rule."""

    PRE_VOTE = "a voter requests pre-votes before it raises the epoch (KIP-996)"
    PRE_VOTE_REJECTED_WHILE_LEADER_IS_ALIVE = "a follower of a live leader grants no pre-vote (KIP-996)"
    CHECK_QUORUM = "a leader that a majority has not fetched from resigns (KAFKA-15489)"
    VOTE_DURABLE_BEFORE_RESPONSE = "epoch and vote are durable before a message depends on them"
    LOG_FLUSHED_BEFORE_ACKNOWLEDGE = "records are durable before a replica counts for them"
    COMMIT_ONLY_OWN_EPOCH = "a leader commits nothing before a record of its own epoch"
    LOG_UP_TO_DATE_FOR_VOTE = "a vote is granted only to a log that is not behind the voter's"
    ONE_VOTER_CHANGE_AT_A_TIME = "the voter set changes by one voter, committed before the next change"
    NEVER_TRUNCATE_COMMITTED = "nothing below the high watermark is truncated (KAFKA-12460)"
    ONE_VOTE_PER_EPOCH = "a voter votes for one candidate in an epoch"
    DIRECTORY_ID_CHECKED = "a voter is its id and its directory id (KIP-853)"


def rules_without(disabled: Iterable[Safeguard]) -> QuorumRules:
    """Return the rules of the quorum without those in `disabled`."""
    ablations = tuple(_ABLATIONS[safeguard] for safeguard in sorted(disabled, key=lambda each: each.name))
    rules: QuorumRules = type("AblatedRules", (*ablations, QuorumRules), {})()
    return rules


class _WithoutPreVote(QuorumRules):
    def begin_election(self, voter: Electable, now_ms: int) -> None:
        voter.become_candidate(now_ms)


class _WithPreVotesForAll(QuorumRules):
    def grants_pre_vote(self, state: State, role: Role) -> bool:
        return state is not State.LEADER


class _WithoutCheckQuorum(QuorumRules):
    def check_quorum_deadline_ms(self, deadline_ms: int, voters_needed: int) -> int | None:
        return None


class _WithoutDurableVote(QuorumRules):
    def persist_vote(self, outbox: Outbox, record: QuorumRecord) -> None:
        pass


class _WithoutFlush(QuorumRules):
    def persist_log(self, outbox: Outbox, end_offset: Offset) -> int:
        return NO_TICKET

    def acknowledged_end(self, flushed_to: Offset, log_end_offset: Offset) -> Offset:
        return log_end_offset


class _WithCommitsOfEarlierEpochs(QuorumRules):
    def may_commit(self, offset: Offset, epoch_start_offset: Offset) -> bool:
        return True


class _WithVotesForShorterLogs(QuorumRules):
    def is_log_up_to_date(self, candidate_end: tuple[int, int], own_end: tuple[int, int]) -> bool:
        return True


class _WithConcurrentVoterChanges(QuorumRules):
    def is_change_pending(self, change: VoterChange | None) -> bool:
        return False

    def is_last_change_committed(self, change_offset: Offset | None, high_watermark: Offset | None) -> bool:
        return True


class _WithTruncationOfCommitted(QuorumRules):
    def may_truncate_to(self, offset: Offset, high_watermark: Offset) -> bool:
        return True


class _WithSeveralVotes(QuorumRules):
    def has_not_voted(self, vote: ReplicaKey | None, state: State) -> bool:
        return state is not State.CANDIDATE


class _WithAnyDirectory(QuorumRules):
    def is_same_directory(self, expected: UUID | None, other: UUID | None) -> bool:
        return True


NO_TICKET = -1
_ABLATIONS: dict[Safeguard, type[QuorumRules]] = {
    Safeguard.PRE_VOTE: _WithoutPreVote,
    Safeguard.PRE_VOTE_REJECTED_WHILE_LEADER_IS_ALIVE: _WithPreVotesForAll,
    Safeguard.CHECK_QUORUM: _WithoutCheckQuorum,
    Safeguard.VOTE_DURABLE_BEFORE_RESPONSE: _WithoutDurableVote,
    Safeguard.LOG_FLUSHED_BEFORE_ACKNOWLEDGE: _WithoutFlush,
    Safeguard.COMMIT_ONLY_OWN_EPOCH: _WithCommitsOfEarlierEpochs,
    Safeguard.LOG_UP_TO_DATE_FOR_VOTE: _WithVotesForShorterLogs,
    Safeguard.ONE_VOTER_CHANGE_AT_A_TIME: _WithConcurrentVoterChanges,
    Safeguard.NEVER_TRUNCATE_COMMITTED: _WithTruncationOfCommitted,
    Safeguard.ONE_VOTE_PER_EPOCH: _WithSeveralVotes,
    Safeguard.DIRECTORY_ID_CHECKED: _WithAnyDirectory,
}
