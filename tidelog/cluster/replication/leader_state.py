"""The state of one partition at its leader: followers, ISR and high watermark.

    committed ISR     the ISR in the metadata; its size determines whether acks=all is accepted
    maximal ISR       the committed ISR and replicas that are about to join; all have the committed records
    high watermark    the smallest log end offset of the maximal ISR and of replicas about to catch up; it
                      does not advance while the ISR is smaller than min.insync.replicas (KIP-966)

A follower joins once it has reached the high watermark and the start of this leader epoch (committed
records may be between the two, KAFKA-7128), if its broker is unfenced and is the incarnation that fetched
(KIP-841, KIP-903). It leaves if it was not caught up for replica.lag.time.max.ms. Either is a proposal
to the controller (`leader_isr`); at most one is pending.

Invariants: ISR and followers are subsets of the assigned replicas; at most one proposal is pending;
partition_epoch never decreases.
I/O: none; the log's offsets and monotonic times are arguments.
Source: kafka.cluster.Partition of Apache Kafka; KIP-497, KIP-841, KIP-903, KIP-966.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from tidelog.cluster.image import BrokerImage, PartitionImage
from tidelog.cluster.replication.leader_isr import (
    REJECTION_ERRORS,
    UNKNOWN_OUTCOME_ERRORS,
    CommittedIsr,
    IsrMember,
    IsrOutcome,
    IsrProposal,
)
from tidelog.cluster.replication.leader_positions import FollowerPosition
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import NO_LEADER_EPOCH, BrokerId, LeaderEpoch, Offset

Brokers: TypeAlias = Callable[[], Mapping[BrokerId, BrokerImage]]
"""Returns the brokers that are currently registered."""


class LeaderState:
    """Tracks ISR and followers of one partition; created each time this broker becomes its leader."""

    __slots__ = (
        "_brokers",
        "_lag_time_max_ms",
        "_own_epoch",
        "adding_replicas",
        "broker_id",
        "epoch_start_offset",
        "followers",
        "is_only_replica",
        "is_under_min_isr",
        "isr",
        "leader_epoch",
        "maximal_isr",
        "min_insync_replicas",
        "partition_epoch",
        "pending",
        "removing_replicas",
        "waits_for_followers",
    )

    def __init__(
        self,
        broker_id: BrokerId,
        *,
        lag_time_max_ms: int,
        min_insync_replicas: int,
        brokers: Brokers,
        own_epoch: Callable[[], int],
    ) -> None:
        self.broker_id = broker_id
        self.min_insync_replicas = min_insync_replicas
        self._lag_time_max_ms = lag_time_max_ms
        self._brokers = brokers
        self._own_epoch = own_epoch
        self.followers: dict[BrokerId, FollowerPosition] = {}
        self.isr: tuple[BrokerId, ...] = ()
        self.maximal_isr: frozenset[BrokerId] = frozenset()
        self.pending: IsrProposal | None = None
        self.leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
        self.partition_epoch = -1
        self.epoch_start_offset: Offset = 0
        """The start offset of this leader epoch in the log."""
        self.adding_replicas: tuple[BrokerId, ...] = ()
        self.removing_replicas: tuple[BrokerId, ...] = ()
        # Cached for every append.
        self.is_only_replica = True
        """Whether there are no other replicas, so that appended records are committed at once."""
        self.is_under_min_isr = False
        """Whether the committed ISR is too small for acks=all."""
        self.waits_for_followers = False
        """Whether a follower must fetch before the high watermark can advance."""

    # ---- the metadata

    def _had_other_leader(self, leader_epoch: LeaderEpoch) -> bool:
        """Return whether another broker was leader between the known epoch and `leader_epoch`.

        Each election starts one epoch. Followers may have truncated their logs under that leader, so their
        known positions are then invalid.
        """
        return leader_epoch > self.leader_epoch + 1

    def apply_metadata(self, partition_image: PartitionImage, log_end_offset: Offset, now_ms: int) -> bool:
        """Apply the partition in the metadata; return False if it is older than the known state.

        A new partition epoch ends a pending proposal, which is based on the old one. The same partition epoch
        has no effect.
        """
        if partition_image.partition_epoch < self.partition_epoch:
            return False
        self._assign(partition_image)
        if partition_image.leader_epoch > self.leader_epoch:
            is_new_leader = self.leader_epoch == NO_LEADER_EPOCH or self._had_other_leader(
                partition_image.leader_epoch
            )
            for follower in self.followers.values():
                follower.on_new_leader_epoch(
                    log_end_offset,
                    is_new_leader=is_new_leader,
                    is_in_sync=follower.broker_id in partition_image.isr,
                    now_ms=now_ms,
                )
            self.leader_epoch = partition_image.leader_epoch
            self.epoch_start_offset = log_end_offset
        if partition_image.partition_epoch > self.partition_epoch:
            self.partition_epoch = partition_image.partition_epoch
            self._commit(partition_image.isr)
        return True

    def _assign(self, partition_image: PartitionImage) -> None:
        known = self.followers
        self.followers = {
            replica: known.get(replica) or FollowerPosition(replica)
            for replica in partition_image.replicas
            if replica != self.broker_id
        }
        self.adding_replicas = partition_image.adding_replicas
        self.removing_replicas = partition_image.removing_replicas
        self._refresh()

    def _commit(self, isr: Iterable[BrokerId]) -> None:
        self.isr = tuple(isr)
        self.maximal_isr = frozenset(self.isr)
        self.pending = None
        self._refresh()

    def _refresh(self) -> None:
        """Update the cached values after a change of ISR, replicas or min.insync.replicas."""
        self.is_only_replica = not self.followers
        self.is_under_min_isr = len(self.isr) < self.effective_min_insync_replicas
        self.waits_for_followers = len(self.maximal_isr) > 1

    def set_min_insync_replicas(self, min_insync_replicas: int) -> None:
        """Apply a changed config, after which the high watermark may advance."""
        self.min_insync_replicas = min_insync_replicas
        self._refresh()

    # ---- followers

    def record_fetch(
        self,
        broker_id: BrokerId,
        fetch_offset: Offset,
        log_start_offset: Offset,
        leader_end_offset: Offset,
        broker_epoch: int,
        now_ms: int,
    ) -> bool:
        """Record a fetch of an assigned follower in this leader epoch; return True if its log end changed.

        Errors: KafkaError NOT_LEADER_OR_FOLLOWER for a broker that has registered again (KIP-903).
        """
        follower = self.followers[broker_id]
        if broker_epoch != -1:
            self._check_incarnation(broker_id, broker_epoch)
        before = follower.log_end_offset
        follower.record_fetch(fetch_offset, log_start_offset, leader_end_offset, broker_epoch, now_ms)
        return fetch_offset != before

    def _check_incarnation(self, broker_id: BrokerId, broker_epoch: int) -> None:
        """Raise KafkaError NOT_LEADER_OR_FOLLOWER if the broker has registered again (KIP-903)."""
        registered = self._brokers().get(broker_id)
        if registered is not None and registered.epoch > broker_epoch:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"fetch of broker {broker_id} has stale broker epoch {broker_epoch}; "
                f"the current epoch is {registered.epoch}",
            )

    def low_watermark(self, own_log_start_offset: Offset) -> Offset:
        """Return the smallest log start offset of the unfenced replicas; -1 if one is unknown."""
        lowest = own_log_start_offset
        brokers = self._brokers()
        for follower in self.followers.values():
            if follower.log_start_offset < lowest:
                broker = brokers.get(follower.broker_id)
                if broker is not None and not broker.fenced:
                    lowest = follower.log_start_offset
        return lowest

    # ---- the high watermark

    @property
    def effective_min_insync_replicas(self) -> int:
        """The value of min.insync.replicas, but at most the number of replicas."""
        return min(self.min_insync_replicas, len(self.followers) + 1)

    @property
    def has_enough_in_sync_replicas(self) -> bool:
        """Whether records appended with acks=all may be acknowledged when they are committed."""
        return len(self.maximal_isr) >= self.effective_min_insync_replicas

    def is_followed_since(self, since_ms: int) -> bool:
        """Return whether every other member of the ISR has followed this leader at `since_ms` or later.

        If so, no other leader was elected among them before that time. A leader that was partitioned or
        suspended cannot know this otherwise. Below min.insync.replicas the result is False, because replicas
        outside the ISR may be elected (KIP-966).
        """
        return not self.is_under_min_isr and all(
            self.followers[broker].last_followed_ms >= since_ms
            for broker in self.maximal_isr
            if broker != self.broker_id
        )

    def high_watermark(self, log_end_offset: Offset, committable_end: Offset, now_ms: int) -> Offset | None:
        """Return the end of the records that all relevant replicas have; None if the ISR is too small.

        Of the leader's own records, those below `committable_end` count. The result may be below the current
        high watermark, which then does not change.
        """
        if not self._can_commit():
            return None
        lowest = committable_end
        for follower in self.followers.values():
            if follower.log_end_offset < lowest and (
                follower.broker_id in self.maximal_isr
                or self._is_about_to_join(follower, log_end_offset, now_ms)
            ):
                lowest = follower.log_end_offset
        return lowest

    def _can_commit(self) -> bool:
        """Return whether the high watermark may advance: not while the ISR is too small (KIP-966)."""
        return not self.is_under_min_isr

    def _is_about_to_join(self, follower: FollowerPosition, log_end_offset: Offset, now_ms: int) -> bool:
        """Return whether the high watermark waits for a follower that otherwise could never catch up."""
        return follower.is_caught_up(log_end_offset, now_ms, self._lag_time_max_ms) and self.may_join(
            follower
        )

    # ---- changes of the ISR

    def may_join(self, follower: FollowerPosition) -> bool:
        """Return whether the broker is active, and is the incarnation that fetched (KIP-841, KIP-903)."""
        broker = self._brokers().get(follower.broker_id)
        if broker is None or follower.broker_epoch is None:
            return False
        return self._is_broker_active(broker) and self._is_incarnation(follower, broker)

    def _is_broker_active(self, broker: BrokerImage) -> bool:
        """Return whether the broker is neither fenced nor in controlled shutdown (KIP-841)."""
        return broker.is_active

    def _is_incarnation(self, follower: FollowerPosition, broker: BrokerImage) -> bool:
        """Return whether the registered incarnation of the broker is the one that fetched (KIP-903)."""
        return follower.broker_epoch in (-1, broker.epoch)

    def propose_expansion(self, broker_id: BrokerId, high_watermark: Offset) -> IsrProposal | None:
        """Propose to add a follower that has fetched; return None if it may not join."""
        if self.pending is not None or broker_id in self.isr:
            return None
        follower = self.followers[broker_id]
        end = follower.log_end_offset
        if not (self._has_committed(end, high_watermark) and self._has_epoch_start(end)):
            return None
        if not self.may_join(follower):
            return None
        self._add_to_maximal_isr(broker_id)
        return self._propose((*self.isr, broker_id), added=broker_id)

    def _has_committed(self, end_offset: Offset, high_watermark: Offset) -> bool:
        """Return whether a follower with this log end offset has all committed records."""
        return end_offset >= high_watermark

    def restart_epoch_at(self, offset: Offset) -> None:
        """Let this leader epoch begin at `offset`: the log was restarted there, without records of it."""
        self.epoch_start_offset = offset

    def _has_epoch_start(self, end_offset: Offset) -> bool:
        """Return whether a follower with this log end offset has reached this leader epoch (KAFKA-7128)."""
        return end_offset >= self.epoch_start_offset

    def _add_to_maximal_isr(self, broker_id: BrokerId) -> None:
        """Include a replica in the maximal ISR while its addition to the ISR is pending (KIP-497)."""
        self.maximal_isr = frozenset((*self.isr, broker_id))
        self._refresh()

    def propose_shrink(self, log_end_offset: Offset, now_ms: int) -> IsrProposal | None:
        """Propose to remove replicas that have lagged too long; return None if there are none."""
        if self.pending is not None:
            return None
        removed = frozenset(
            member
            for member in self.isr
            if member != self.broker_id and not self._is_caught_up(member, log_end_offset, now_ms)
        )
        if not removed:
            return None
        remaining = tuple(member for member in self.isr if member not in removed)
        return self._propose(remaining, removed=removed)

    def _is_caught_up(self, member: BrokerId, log_end_offset: Offset, now_ms: int) -> bool:
        follower = self.followers.get(member)
        return follower is not None and follower.is_caught_up(log_end_offset, now_ms, self._lag_time_max_ms)

    def _propose(
        self,
        isr: tuple[BrokerId, ...],
        *,
        added: BrokerId | None = None,
        removed: frozenset[BrokerId] = frozenset(),
    ) -> IsrProposal:
        self.pending = IsrProposal(
            members=tuple(IsrMember(member, self._epoch_of(member)) for member in isr),
            added=added,
            removed=removed,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
        )
        return self.pending

    def _epoch_of(self, member: BrokerId) -> int:
        if member == self.broker_id:
            return self._own_epoch()
        follower = self.followers.get(member)
        # A member that has not fetched from this leader yet was added by the controller. If it restarts, the
        # controller raises the partition epoch, so the proposal is rejected.
        return -1 if follower is None or follower.broker_epoch is None else follower.broker_epoch

    def on_isr_response(self, proposal: IsrProposal, response: CommittedIsr | ErrorCode) -> IsrOutcome:
        """Apply the controller's response; on RETRY the proposal must be sent again unchanged."""
        if self.pending is not proposal:
            return IsrOutcome.STALE
        if isinstance(response, CommittedIsr):
            if response.leader_epoch != self.leader_epoch or response.partition_epoch < self.partition_epoch:
                return IsrOutcome.STALE
            self.partition_epoch = response.partition_epoch
            self._commit(response.isr)
            return IsrOutcome.COMMITTED
        if response in REJECTION_ERRORS:
            self._commit(self.isr)
            return IsrOutcome.REJECTED
        return IsrOutcome.UNKNOWN if response in UNKNOWN_OUTCOME_ERRORS else IsrOutcome.RETRY

    # ---- metrics

    @property
    def replication_factor(self) -> int:
        """The number of replicas, without those that a reassignment is adding."""
        return len(self.followers) + 1 - len(self.adding_replicas)

    @property
    def is_under_replicated(self) -> bool:
        """Whether the ISR lacks replicas; those that a reassignment is adding are not counted."""
        return len(self.isr) < self.replication_factor

    @property
    def is_at_min_isr(self) -> bool:
        """Whether acks=all is rejected after the loss of one more in-sync replica."""
        return len(self.isr) == self.effective_min_insync_replicas

    @property
    def is_reassigning(self) -> bool:
        """Whether a reassignment of the partition is in progress."""
        return bool(self.adding_replicas or self.removing_replicas)
