"""The context that all leader partitions of a node share: brokers, clock, controller, waiting requests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol
from uuid import UUID

from tidelog.base.clock import Clock
from tidelog.broker.partitions.commits import PendingCommits
from tidelog.broker.partitions.waiting_requests import WaitingRequests
from tidelog.cluster.image import BrokerImage
from tidelog.cluster.replication.leader_isr import CommittedIsr, IsrProposal
from tidelog.cluster.replication.leader_state import LeaderState
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import BrokerId, TopicPartition


class LeaderPartition(Protocol):
    """A partition whose leader proposes a change of its ISR."""

    @property
    def topic_id(self) -> UUID: ...

    @property
    def topic_partition(self) -> TopicPartition: ...

    @property
    def pending_isr(self) -> IsrProposal | None:
        """The proposal in progress; None if there is none, or if newer metadata has superseded it."""

    def on_isr_response(self, proposal: IsrProposal, response: CommittedIsr | ErrorCode) -> bool:
        """Apply the controller's response; return True if the proposal must be sent again."""


class IsrProposals(Protocol):
    """Sends changes of ISRs to the controller; `IsrUpdates` implements it."""

    def propose(self, partition: LeaderPartition, proposal: IsrProposal, /) -> None:
        """Send `proposal`; call `partition.on_isr_response` with the response."""


class Leadership:
    """The context of all leader partitions of one node.

    `updates` and `waiting_requests` are None until the node serves requests.
    """

    __slots__ = (
        "brokers",
        "clock",
        "commits",
        "failed_isr_updates",
        "isr_expands",
        "isr_shrinks",
        "lag_time_max_ms",
        "node_id",
        "own_epoch",
        "updates",
        "waiting_requests",
    )

    def __init__(
        self,
        node_id: BrokerId,
        *,
        clock: Clock,
        brokers: Callable[[], Mapping[BrokerId, BrokerImage]],
        own_epoch: Callable[[], int] = lambda: -1,
        lag_time_max_ms: int,
    ) -> None:
        self.node_id = node_id
        self.clock = clock
        self.brokers = brokers
        self.own_epoch = own_epoch
        self.lag_time_max_ms = lag_time_max_ms
        self.updates: IsrProposals | None = None
        self.waiting_requests: WaitingRequests | None = None
        self.commits = PendingCommits()
        self.isr_expands = 0
        self.isr_shrinks = 0
        self.failed_isr_updates = 0

    def create_leader_state(self, min_insync_replicas: int) -> LeaderState:
        """Return the state of a partition of which this node becomes the leader."""
        return LeaderState(
            self.node_id,
            lag_time_max_ms=self.lag_time_max_ms,
            min_insync_replicas=min_insync_replicas,
            brokers=self.brokers,
            own_epoch=self.own_epoch,
        )

    @property
    def can_propose(self) -> bool:
        """Whether changes of an ISR can be sent to the controller."""
        return self.updates is not None

    def propose(self, partition: LeaderPartition, proposal: IsrProposal) -> None:
        """Send a change of the ISR to the controller."""
        assert self.updates is not None
        self.updates.propose(partition, proposal)

    def complete_waiting_requests(self, topic_partition: TopicPartition) -> None:
        """Complete the requests that wait for a watermark of the partition, or for a change of its role."""
        self.commits.check(topic_partition)
        if self.waiting_requests is not None:
            self.waiting_requests.check(topic_partition)

    def complete_all_waiting_requests(self, topic_partitions: Collection[TopicPartition]) -> None:
        """Do what `complete_waiting_requests` does for each of up to 10,000 partitions."""
        self.commits.check_all(topic_partitions)
        if self.waiting_requests is not None:
            self.waiting_requests.check_all(topic_partitions)

    @property
    def has_waiting_deletions(self) -> bool:
        """Whether a DeleteRecords request waits for a low watermark."""
        return self.waiting_requests is not None and bool(self.waiting_requests.delete_records.watched_count)
