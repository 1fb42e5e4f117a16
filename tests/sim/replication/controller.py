"""An abstract controller of one partition: registration, fencing, AlterPartition, elections.

It implements the rules of Kafka's controller with eligible leader replicas (KIP-966) in their simplest form.
Each change creates a version of the metadata. Brokers apply the versions in order, with different delays.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple
from uuid import UUID

from tidelog.cluster.image import NO_LEADER, BrokerImage, PartitionImage
from tidelog.cluster.replication.leader_isr import CommittedIsr, IsrProposal
from tidelog.protocol.errors import ErrorCode


class Rule(Enum):
    """The controller's rules that tests disable."""

    FENCED_STAY_OUT = "KIP-841: a fenced or stopping broker cannot join the ISR"
    BROKER_EPOCHS_CHECKED = "KIP-903: only the registered incarnation of a broker can join the ISR"
    UNCLEAN_SHUTDOWN_LEAVES = "KIP-966: a broker that did not stop cleanly leaves ISR and ELR"
    PARTITION_EPOCH_CHECKED = "KIP-497: a change based on an old partition epoch is refused"
    LEADER_EPOCH_CHECKED = "a leader of an earlier epoch changes nothing"


class MetadataVersion(NamedTuple):
    """The metadata after one change."""

    partition_image: PartitionImage
    brokers: dict[int, BrokerImage]


@dataclass
class SimController:
    """The partition and its brokers; `on_election` gets (leader, is_clean) of each election."""

    replicas: tuple[int, ...]
    min_insync_replicas: int
    unclean_elections: bool = False
    disabled: frozenset[Rule] = frozenset()
    versions: list[MetadataVersion] = field(default_factory=list)
    brokers: dict[int, BrokerImage] = field(default_factory=dict)
    unclean_election_count: int = 0
    """The number of unclean elections."""

    def __post_init__(self) -> None:
        self.partition_image = PartitionImage(replicas=self.replicas, isr=self.replicas)
        for broker in self.replicas:
            self.brokers[broker] = BrokerImage(
                id=broker, epoch=broker, incarnation_id=UUID(int=broker), endpoints={}, fenced=False
            )
        self._next_broker_epoch = 100
        self.partition_image = replace(self.partition_image, leader=self.replicas[0])
        self._publish()

    @property
    def minimum(self) -> int:
        """Return the number of replicas that must have a committed record."""
        return min(self.min_insync_replicas, len(self.replicas))

    def _publish(self) -> None:
        self.versions.append(MetadataVersion(self.partition_image, dict(self.brokers)))

    def is_active(self, broker: int) -> bool:
        """Return whether the broker may be leader."""
        return self.brokers[broker].is_active

    # -- brokers

    def register(self, broker: int, previous_epoch: int | None) -> int:
        """Register a broker; `previous_epoch` is that of its clean shutdown, None without one."""
        registration = self.brokers[broker]
        stopped_cleanly = previous_epoch == registration.epoch
        self._next_broker_epoch += 1
        epoch = self._next_broker_epoch
        self.brokers[broker] = replace(
            registration,
            epoch=epoch,
            incarnation_id=UUID(int=epoch),
            fenced=True,
            in_controlled_shutdown=False,
        )
        isr = tuple(b for b in self.partition_image.isr if b != broker)
        if not stopped_cleanly and Rule.UNCLEAN_SHUTDOWN_LEAVES not in self.disabled:
            self._change(isr, lost_broker=broker)
        else:
            self._change(isr)
        return epoch

    def fence(self, broker: int) -> None:
        """Fence a broker with an expired session."""
        self.brokers[broker] = replace(self.brokers[broker], fenced=True)
        self._change(tuple(b for b in self.partition_image.isr if b != broker))

    def unfence(self, broker: int) -> None:
        """Unfence a broker that has applied the metadata."""
        self.brokers[broker] = replace(self.brokers[broker], fenced=False)
        self._change(self.partition_image.isr)

    def begin_shutdown(self, broker: int) -> None:
        """Start a controlled shutdown: the broker loses leadership and leaves the ISR."""
        self.brokers[broker] = replace(self.brokers[broker], in_controlled_shutdown=True)
        self._change(tuple(b for b in self.partition_image.isr if b != broker))

    def move_leader(self, broker: int) -> bool:
        """Elect another ISR member as a preferred election does."""
        if (
            broker not in self.partition_image.isr
            or not self.is_active(broker)
            or broker == self.partition_image.leader
        ):
            return False
        self._set(leader=broker)
        return True

    # -- the partition

    def _change(self, isr: tuple[int, ...], lost_broker: int | None = None) -> None:
        """Set a new ISR, and a leader from it if the current one left it."""
        partition_image = self.partition_image
        eligible: tuple[int, ...] = ()
        if len(isr) < self.minimum:
            former = (*partition_image.isr, *partition_image.eligible_leader_replicas)
            eligible = tuple(b for b in dict.fromkeys(former) if b not in isr and b != lost_broker)
        leader = partition_image.leader
        if leader not in isr or not self.is_active(leader):
            leader = next((b for b in self.replicas if b in isr and self.is_active(b)), NO_LEADER)
        if leader == NO_LEADER:
            leader = next((b for b in eligible if self.is_active(b)), NO_LEADER)
            if leader != NO_LEADER:
                isr = (leader,)
                eligible = tuple(b for b in eligible if b != leader) if len(isr) < self.minimum else ()
        if leader == NO_LEADER and self.unclean_elections:
            leader = next((b for b in self.replicas if self.is_active(b)), NO_LEADER)
            if leader != NO_LEADER:
                self.unclean_election_count += 1
                isr, eligible = (leader,), ()
        self._set(isr=isr, eligible=eligible, leader=leader)

    def _set(
        self,
        *,
        isr: tuple[int, ...] | None = None,
        eligible: tuple[int, ...] | None = None,
        leader: int | None = None,
    ) -> None:
        before = self.partition_image
        after = replace(
            before,
            isr=before.isr if isr is None else isr,
            eligible_leader_replicas=before.eligible_leader_replicas if eligible is None else eligible,
            leader=before.leader if leader is None else leader,
        )
        if after != before:
            is_election = after.leader != before.leader
            self.partition_image = replace(
                after,
                leader_epoch=before.leader_epoch + is_election,
                partition_epoch=before.partition_epoch + 1,
            )
        self._publish()

    def elect_any(self) -> None:
        """Elect any replica; the operator accepts the loss of records."""
        before, self.unclean_elections = self.unclean_elections, True
        self._change(self.partition_image.isr)
        self.unclean_elections = before

    def alter_partition(
        self, sender: int, sender_epoch: int, proposal: IsrProposal
    ) -> CommittedIsr | ErrorCode:
        """Change the ISR as requested by a leader."""
        refused = self._refusal_code(sender, sender_epoch, proposal)
        if refused is not None:
            return refused
        isr = tuple(member.broker_id for member in proposal.members)
        self._change(isr)
        partition_image = self.partition_image
        if partition_image.leader != sender:
            return ErrorCode.NEW_LEADER_ELECTED
        return CommittedIsr(
            leader_epoch=partition_image.leader_epoch,
            partition_epoch=partition_image.partition_epoch,
            isr=partition_image.isr,
        )

    def _refusal_code(self, sender: int, sender_epoch: int, proposal: IsrProposal) -> ErrorCode | None:
        partition_image, off = self.partition_image, self.disabled
        if sender_epoch != self.brokers[sender].epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if Rule.LEADER_EPOCH_CHECKED not in off:
            if proposal.leader_epoch < partition_image.leader_epoch or partition_image.leader != sender:
                return ErrorCode.FENCED_LEADER_EPOCH
        elif partition_image.leader == NO_LEADER:
            return ErrorCode.FENCED_LEADER_EPOCH
        if (
            Rule.PARTITION_EPOCH_CHECKED not in off
            and proposal.partition_epoch != partition_image.partition_epoch
        ):
            return ErrorCode.INVALID_UPDATE_VERSION
        for member, epoch in proposal.members:
            if Rule.FENCED_STAY_OUT not in off and not self.is_active(member):
                return ErrorCode.INELIGIBLE_REPLICA
            if Rule.BROKER_EPOCHS_CHECKED not in off and epoch not in (-1, self.brokers[member].epoch):
                return ErrorCode.INELIGIBLE_REPLICA
        return None
