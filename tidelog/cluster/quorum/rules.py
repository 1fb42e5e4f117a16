"""The rules that ensure safety and liveness of the quorum, one method each.

The other modules of this package call a rule where the protocol requires it. A simulation replaces one
rule at a time and expects that an invariant is violated, which proves that the rule is necessary.

I/O: none.
"""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from tidelog.cluster.quorum.leader_state import VoterChange
from tidelog.cluster.quorum.outbox import Outbox
from tidelog.cluster.quorum.quorum_record import QuorumRecord
from tidelog.cluster.quorum.states import FollowerState, Role, State
from tidelog.cluster.quorum.voter_set import ReplicaKey
from tidelog.protocol.ids import Offset


class Electable(Protocol):
    """The transitions by which a voter starts an election."""

    def become_prospective(self, now_ms: int) -> None:
        """Request pre-votes in the current epoch."""
        ...

    def become_candidate(self, now_ms: int) -> None:
        """Move to the next epoch, vote for itself and request votes."""
        ...


class QuorumRules:
    """The rules of KRaft as in Apache Kafka 4.3.

    Source: the Raft paper; KIP-595, KIP-853, KIP-996; KAFKA-12460, KAFKA-15489.
    """

    __slots__ = ()

    def begin_election(self, voter: Electable, now_ms: int) -> None:
        """Request pre-votes first, so that a voter that cannot win does not raise the epoch (KIP-996)."""
        voter.become_prospective(now_ms)

    def grants_pre_vote(self, state: State, role: Role) -> bool:
        """Return whether to grant a pre-vote: not while fetches from a leader succeed (KIP-996)."""
        has_live_leader = isinstance(role, FollowerState) and role.has_fetched
        return state is not State.LEADER and not has_live_leader

    def is_log_up_to_date(self, candidate_end: tuple[int, int], own_end: tuple[int, int]) -> bool:
        """Return whether a candidate's log is at least as long as the voter's, by (epoch, end offset)."""
        return candidate_end >= own_end

    def has_not_voted(self, vote: ReplicaKey | None, state: State) -> bool:
        """Return whether the voter has not voted in this epoch yet."""
        return vote is None and state is not State.CANDIDATE

    def is_same_directory(self, expected: UUID | None, other: UUID | None) -> bool:
        """Return whether two replicas of one node have the same log directory (KIP-853).

        `expected` is None for a voter whose directory id is not known yet; every directory matches it.
        """
        return expected is None or expected == other

    def persist_vote(self, outbox: Outbox, record: QuorumRecord) -> None:
        """Make epoch and vote durable before any message that depends on them."""
        outbox.persist(record=record)

    def persist_log(self, outbox: Outbox, end_offset: Offset) -> int:
        """Make the log durable before this replica acknowledges its records; return the ticket."""
        return outbox.persist(flush_to=end_offset)

    def acknowledged_end(self, flushed_to: Offset, log_end_offset: Offset) -> Offset:
        """Return the end of the leader's own log that counts for the high watermark: the durable part."""
        return flushed_to

    def may_commit(self, offset: Offset, epoch_start_offset: Offset) -> bool:
        """Return whether `offset` can become the high watermark: only if a record of this epoch is below."""
        return offset > epoch_start_offset

    def may_truncate_to(self, offset: Offset, high_watermark: Offset) -> bool:
        """Return whether a follower may truncate to `offset`: not below the high watermark (KAFKA-12460)."""
        return offset >= high_watermark

    def check_quorum_deadline_ms(self, deadline_ms: int, voters_needed: int) -> int | None:
        """Return the time at which a leader resigns unless a majority fetches; None for the only voter.

        Source: KAFKA-15489.
        """
        return deadline_ms if voters_needed > 0 else None

    def is_change_pending(self, change: VoterChange | None) -> bool:
        """Return whether a change of the voter set has not ended; only one may be pending (KIP-853)."""
        return change is not None

    def is_last_change_committed(self, change_offset: Offset | None, high_watermark: Offset | None) -> bool:
        """Return whether the last change of the voter set, in the log at `change_offset`, is committed."""
        return high_watermark is not None and change_offset is not None and change_offset < high_watermark
