"""The rules that keep the quorum safe and steady, one method each.

The other modules of this package ask a rule where the protocol needs it. A simulation replaces one
rule at a time and expects a violation of an invariant, which proves that the rule is needed.

I/O: none.
"""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from tidelog.cluster.quorum.leading import Leading
from tidelog.cluster.quorum.outbox import Outbox
from tidelog.cluster.quorum.quorum_record import QuorumRecord
from tidelog.cluster.quorum.states import Following, Role, State
from tidelog.cluster.quorum.voter_set import ReplicaKey
from tidelog.protocol.ids import Offset


class Electable(Protocol):
    """A voter that can ask for votes."""

    def become_prospective(self, now_ms: int) -> None:
        """Ask for pre-votes in the present epoch."""
        ...

    def become_candidate(self, now_ms: int) -> None:
        """Raise the epoch, vote for itself and ask for votes."""
        ...


class QuorumRules:
    """The rules of KRaft as Apache Kafka 4.3 has them.

    Source: the Raft paper; KIP-595, KIP-853, KIP-996; KAFKA-12460, KAFKA-15489.
    """

    __slots__ = ()

    def begin_election(self, voter: Electable, now_ms: int) -> None:
        """Ask for pre-votes first, so that a voter that cannot win does not raise the epoch (KIP-996)."""
        voter.become_prospective(now_ms)

    def grants_pre_vote(self, state: State, role: Role) -> bool:
        """Return whether a pre-vote is granted: not while a leader is known to be alive (KIP-996)."""
        hears_a_leader = isinstance(role, Following) and role.has_fetched
        return state is not State.LEADER and not hears_a_leader

    def is_log_up_to_date(self, candidate_end: tuple[int, int], own_end: tuple[int, int]) -> bool:
        """Return whether the log of a candidate is not behind the voter's; both are (epoch, end offset)."""
        return candidate_end >= own_end

    def is_vote_free(self, voted: ReplicaKey | None, state: State) -> bool:
        """Return whether the vote of this epoch has not been given yet."""
        return voted is None and state is not State.CANDIDATE

    def is_same_directory(self, known: UUID | None, other: UUID | None) -> bool:
        """Return whether two replicas of one node have the same log directory (KIP-853).

        `known` is None for a voter whose directory id is not known yet; every directory matches it.
        """
        return known is None or known == other

    def persist_vote(self, outbox: Outbox, record: QuorumRecord) -> None:
        """Make epoch and vote durable before any message that depends on them."""
        outbox.persist(record=record)

    def persist_log(self, outbox: Outbox, end_offset: Offset) -> int:
        """Make the log durable before this replica acknowledges its records; return the ticket."""
        return outbox.persist(flush_to=end_offset)

    def acknowledged_end(self, leading: Leading, log_end_offset: Offset) -> Offset:
        """Return up to where the leader's own log counts for the high watermark: what is durable."""
        return leading.flushed_to

    def may_commit(self, leading: Leading, offset: Offset) -> bool:
        """Return whether `offset` can become the high watermark: only if a record of this epoch is below."""
        return offset > leading.epoch_start_offset

    def may_truncate_to(self, offset: Offset, high_watermark: Offset) -> bool:
        """Return whether a follower can truncate to `offset`: never below what is committed (KAFKA-12460)."""
        return offset >= high_watermark

    def quorum_deadline_ms(self, leading: Leading) -> int | None:
        """Return when a leader resigns unless a majority has fetched; None if it needs no other voter.

        Source: KAFKA-15489.
        """
        return leading.check_quorum_at_ms if leading.heard_needed > 0 else None

    def is_change_pending(self, leading: Leading) -> bool:
        """Return whether a change of the voter set has not ended; only one is made at a time (KIP-853)."""
        return leading.change is not None

    def is_last_change_committed(self, leading: Leading, change_offset: Offset | None) -> bool:
        """Return whether the last change of the voter set, in the log at `change_offset`, is committed."""
        high_watermark = leading.high_watermark
        return high_watermark is not None and change_offset is not None and change_offset < high_watermark
