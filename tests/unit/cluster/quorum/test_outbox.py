"""The order of effects."""

from __future__ import annotations

from tidelog.cluster.quorum.effects import HighWatermark, LeaderChanged, Persist
from tidelog.cluster.quorum.outbox import Outbox
from tidelog.cluster.quorum.quorum_record import QuorumRecord
from tidelog.protocol.messages.vote import VoteRequest

FIRST, SECOND = QuorumRecord(leader_epoch=1), QuorumRecord(leader_epoch=2)


def test_changes_of_one_step_are_persisted_once_before_dependent_messages() -> None:
    outbox = Outbox()
    outbox.add(HighWatermark(1))
    ticket = outbox.persist(record=FIRST)
    outbox.add(LeaderChanged(1, None))
    assert outbox.persist(record=SECOND, flush_to=7) == ticket
    assert outbox.take() == [HighWatermark(1), Persist(ticket, SECOND, 7), LeaderChanged(1, None)]
    assert outbox.take() == []
    assert outbox.persist(flush_to=8) != ticket


def test_request_ids_are_unique() -> None:
    outbox = Outbox()
    assert outbox.send(1, (), VoteRequest()) != outbox.send(1, (), VoteRequest())
