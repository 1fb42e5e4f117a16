"""What all partitions share that this node leads: brokers, clock, the way to the controller, who waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from tidelog.base.clock import Clock
from tidelog.broker.replication.commits import Commits
from tidelog.broker.replication.isr_updates import LedPartition
from tidelog.broker.replication.waiting import WaitingRequests
from tidelog.cluster.image import BrokerImage
from tidelog.cluster.replication.leader_isr import IsrProposal
from tidelog.cluster.replication.leader_state import LeaderState
from tidelog.protocol.ids import BrokerId, TopicPartition

DEFAULT_LAG_TIME_MAX_MS = 30_000


class ProposesIsr(Protocol):
    """Takes changes of an ISR to the controller; `IsrUpdates` is one."""

    def propose(self, partition: LedPartition, proposal: IsrProposal, /) -> None:
        """Ask for it; the partition hears the answer."""


class Leadership:
    """One per node. `updates` and `waiting` are there once the node serves."""

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
        "waiting",
    )

    def __init__(
        self,
        node_id: BrokerId,
        *,
        clock: Clock,
        brokers: Callable[[], Mapping[BrokerId, BrokerImage]],
        own_epoch: Callable[[], int] = lambda: -1,
        lag_time_max_ms: int = DEFAULT_LAG_TIME_MAX_MS,
    ) -> None:
        self.node_id = node_id
        self.clock = clock
        self.brokers = brokers
        self.own_epoch = own_epoch
        self.lag_time_max_ms = lag_time_max_ms
        self.updates: ProposesIsr | None = None
        self.waiting: WaitingRequests | None = None
        self.commits = Commits()
        self.isr_expands = 0
        self.isr_shrinks = 0
        self.failed_isr_updates = 0

    def new_state(self, min_insync_replicas: int) -> LeaderState:
        """The state of a partition that this node begins to lead."""
        return LeaderState(
            self.node_id,
            lag_time_max_ms=self.lag_time_max_ms,
            min_insync_replicas=min_insync_replicas,
            brokers=self.brokers,
            own_epoch=self.own_epoch,
        )

    @property
    def can_propose(self) -> bool:
        """Whether there is a way to the controller."""
        return self.updates is not None

    def propose(self, partition: LedPartition, proposal: IsrProposal) -> None:
        """Have the controller asked for a change of the ISR."""
        assert self.updates is not None
        self.updates.propose(partition, proposal)

    def progressed(self, topic_partition: TopicPartition) -> None:
        """A watermark moved, or the role changed: answer who waited for it."""
        self.commits.check(topic_partition)
        if self.waiting is not None:
            self.waiting.check(topic_partition)

    @property
    def deletions_wait(self) -> bool:
        """Whether anybody waits for a low watermark."""
        return self.waiting is not None and bool(self.waiting.delete_records.watched)
