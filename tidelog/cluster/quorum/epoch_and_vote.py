"""The epoch and the vote of a replica, which survive a restart (Raft: currentTerm and votedFor)."""

from __future__ import annotations

from dataclasses import replace

from tidelog.cluster.quorum.outbox import Outbox
from tidelog.cluster.quorum.quorum_record import QuorumRecord
from tidelog.cluster.quorum.rules import QuorumRules
from tidelog.cluster.quorum.voter_set import ReplicaKey
from tidelog.protocol.ids import BrokerId, LeaderEpoch


class EpochAndVote:
    """The epoch, its leader and this replica's vote; makes each change durable before dependent messages.

    Invariant: the epoch never decreases; within an epoch the vote and the leader are set once.
    """

    def __init__(
        self, record: QuorumRecord | None, last_epoch: LeaderEpoch, outbox: Outbox, rules: QuorumRules
    ) -> None:
        """Start from `record`, or from `last_epoch`, the last epoch in the log, if that is higher."""
        self._outbox = outbox
        self._rules = rules
        if record is None or record.leader_epoch < last_epoch:
            record = QuorumRecord(leader_epoch=last_epoch)
            outbox.persist(record=record)
        self._record = record

    @property
    def record(self) -> QuorumRecord:
        """The latest quorum record; it may not be durable yet."""
        return self._record

    @property
    def epoch(self) -> LeaderEpoch:
        """The highest epoch that this replica knows."""
        return self._record.leader_epoch

    @property
    def leader_id(self) -> BrokerId | None:
        """The leader of the epoch, None if unknown. It may be this replica, elected before a restart."""
        return self._record.leader_id

    @property
    def vote(self) -> ReplicaKey | None:
        """The candidate that this replica voted for in the epoch, None if it has not voted."""
        record = self._record
        return None if record.voted_id is None else ReplicaKey(record.voted_id, record.voted_directory_id)

    def start_epoch(self, epoch: LeaderEpoch, leader_id: BrokerId | None = None) -> None:
        """Move to a higher `epoch`, in which this replica has not voted."""
        assert epoch > self.epoch
        self._persist(QuorumRecord(leader_epoch=epoch, leader_id=leader_id))

    def start_candidacy(self, key: ReplicaKey) -> None:
        """Move to the next epoch and vote for `key`, this replica itself."""
        self._persist(
            QuorumRecord(leader_epoch=self.epoch + 1, voted_id=key.id, voted_directory_id=key.directory_id)
        )

    def vote_for(self, candidate: ReplicaKey) -> None:
        """Vote for `candidate` in the current epoch."""
        self._persist(replace(self._record, voted_id=candidate.id, voted_directory_id=candidate.directory_id))

    def set_leader(self, leader_id: BrokerId) -> None:
        """Record the leader of the current epoch, which was unknown."""
        assert self.leader_id in (None, leader_id), f"{leader_id} claims to lead the epoch of {self._record}"
        self._persist(replace(self._record, leader_id=leader_id))

    def _persist(self, record: QuorumRecord) -> None:
        self._record = record
        self._rules.persist_vote(self._outbox, record)
