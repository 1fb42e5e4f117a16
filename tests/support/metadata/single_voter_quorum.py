"""The simplest quorum state machine: one voter, which is elected at once and commits durable records."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.broker.raft.log import MetadataLog
from tidelog.cluster.quorum.effects import (
    AppendRejected,
    Effect,
    HighWatermark,
    LeaderChanged,
    Persist,
    RecordsAppended,
)
from tidelog.cluster.quorum.events import Append, Event, PersistCompleted, Resign, Tick
from tidelog.cluster.quorum.quorum_record import QuorumRecord
from tidelog.cluster.quorum.voter_set import Endpoint, VoterSet
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.control_batch import ControlRecordType, control_batch
from tidelog.protocol.control_records import LeaderChangeMessage, Voter
from tidelog.protocol.ids import BrokerId, LeaderEpoch, Offset


class SingleVoterQuorum:
    """Implements tidelog.broker.raft.steps.QuorumMachine without messages."""

    kraft_version = 0
    leader_endpoints: tuple[Endpoint, ...] = ()
    voters = VoterSet()

    def __init__(self, node_id: BrokerId, log: MetadataLog, record: QuorumRecord | None) -> None:
        self.node_id = node_id
        self.voter_ids: Iterable[BrokerId] = (node_id,)
        self.deadline_ms: int | None = None
        self._log = log
        self.epoch: LeaderEpoch = max(log.last_epoch, record.leader_epoch if record else 0)
        self.is_leader = False
        self._ticket = 0

    def upgrade_rejection(self, epoch: int) -> str | None:
        return "the quorum has one voter"

    def voters_at(self, end_offset: Offset) -> tuple[int, VoterSet | None]:
        return 0, None

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        if isinstance(event, Tick) and not self.is_leader:
            return self._elect(now_ms)
        if isinstance(event, Append):
            if not self.is_leader or event.epoch != self.epoch:
                return [AppendRejected(event.context, f"epoch {self.epoch}")]
            return self._append(event, now_ms)
        if isinstance(event, PersistCompleted):
            self._log.advance_high_watermark(self._log.end_offset)
            return [HighWatermark(self._log.end_offset)]
        if isinstance(event, Resign):
            self.is_leader = False
            return [LeaderChanged(self.epoch, None)]
        return []

    @property
    def leader_id(self) -> BrokerId | None:
        return self.node_id if self.is_leader else None

    def _elect(self, now_ms: int) -> list[Effect]:
        self.is_leader = True
        self.epoch += 1
        voters = (Voter(voter_id=self.node_id),)
        message = LeaderChangeMessage(leader_id=self.node_id, voters=voters, granting_voters=voters)
        batch = control_batch(
            [(ControlRecordType.LEADER_CHANGE, message)],
            timestamp=now_ms,
            base_offset=self._log.end_offset,
            leader_epoch=self.epoch,
        )
        self._log.append(batch, self.epoch)
        record = QuorumRecord(leader_epoch=self.epoch, leader_id=self.node_id)
        return [self._persist(record), LeaderChanged(self.epoch, self.node_id)]

    def _append(self, event: Append, now_ms: int) -> list[Effect]:
        first = self._log.end_offset
        builder = BatchBuilder(base_offset=first, leader_epoch=self.epoch)
        for value in event.records:
            builder.append(now_ms, None, value)
        self._log.append(builder.build(), self.epoch)
        last = self._log.end_offset - 1
        return [RecordsAppended(event.context, first, last, self.epoch), self._persist(None)]

    def _persist(self, record: QuorumRecord | None) -> Persist:
        self._ticket += 1
        return Persist(self._ticket, record, self._log.end_offset)
