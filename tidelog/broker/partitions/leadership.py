"""The context that all leader partitions of a node share: brokers, clock, controller, waiting requests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, Protocol
from uuid import UUID

from tidelog.base.clock import Clock
from tidelog.broker.partitions.commits import PendingCommits
from tidelog.broker.partitions.waiting_requests import WaitingRequests
from tidelog.cluster.image import BrokerImage
from tidelog.cluster.replication.leader_isr import CommittedIsr, IsrProposal
from tidelog.cluster.replication.leader_state import LeaderState
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import BrokerId, TopicPartition
from tidelog.storage.log.partition_log import PartitionLog


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


class LeadershipPorts(NamedTuple):
    """The parts of the node that a leader calls.

    `request_flush` begins to make the current content of a log durable; `Partition.on_flushed` is called
    when it is.
    """

    isr_updates: IsrProposals
    waiting_requests: WaitingRequests
    request_flush: Callable[[PartitionLog], object]


class Leadership:
    """The context of all leader partitions of one node, and the counters of their ISR changes."""

    __slots__ = (
        "brokers",
        "clock",
        "commits",
        "failed_isr_updates",
        "isr_expands",
        "isr_shrinks",
        "isr_updates",
        "lag_time_max_ms",
        "node_id",
        "own_epoch",
        "request_flush",
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
        ports: LeadershipPorts,
    ) -> None:
        self.node_id = node_id
        self.clock = clock
        self.brokers = brokers
        self.own_epoch = own_epoch
        self.lag_time_max_ms = lag_time_max_ms
        self.isr_updates = ports.isr_updates
        self.waiting_requests = ports.waiting_requests
        self.request_flush = ports.request_flush
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

    def propose(self, partition: LeaderPartition, proposal: IsrProposal) -> None:
        """Send a change of the ISR to the controller."""
        self.isr_updates.propose(partition, proposal)

    def on_isr_changed(self, proposal: IsrProposal) -> None:
        """Count a change of an ISR that the controller has committed."""
        if proposal.is_expansion:
            self.isr_expands += 1
        else:
            self.isr_shrinks += 1

    def on_isr_update_failed(self) -> None:
        """Count a change of an ISR that the controller has rejected."""
        self.failed_isr_updates += 1

    def complete_waiting_requests(self, topic_partition: TopicPartition) -> None:
        """Complete the requests that wait for a watermark of the partition, or for a change of its role."""
        self.commits.check(topic_partition)
        self.waiting_requests.check(topic_partition)

    def complete_all_waiting_requests(self, topic_partitions: Collection[TopicPartition]) -> None:
        """Do what `complete_waiting_requests` does for each of up to 10,000 partitions."""
        self.commits.check_all(topic_partitions)
        self.waiting_requests.check_all(topic_partitions)

    @property
    def has_waiting_deletions(self) -> bool:
        """Whether a DeleteRecords request waits for a low watermark."""
        return bool(self.waiting_requests.delete_records.watched_count)
