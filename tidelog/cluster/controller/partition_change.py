"""One change of one partition: the requested values, the resulting leader, and the record of the change.

Every command that changes a partition goes through `change_partition`. In order:

1. A reassignment whose new replicas are all in sync ends.
2. Eligible leader replicas (KIP-966): while the in-sync set is smaller than min.insync.replicas
   the high watermark does not advance, so a replica that leaves the ISR then still has every committed
   record. It is remembered as eligible until the set is large enough again, or until it lost
   its memory in an unclean shutdown.
3. The leader stays if it may. Otherwise the leader is the first replica that is in sync or, if no replica
   is, eligible. When there is neither, the last known leader, if it is the only one that is
   remembered; and only an unclean election takes anybody else. The last two may lose records:
   the new leader is then the whole in-sync set, and recovering.
4. A new leader epoch begins with a new leader and when a replica leaves the partition, for
   a smaller in-sync set only below metadata.version 3.6.

Deliberately unlike Kafka 4.3, which keeps them: a replica that leaves the partition is no longer
eligible and never the last known leader. It deletes its records, and if it ever came back empty
it would be taken for one that has them all.

Source: KIP-455, KIP-858, KIP-966; PartitionChangeBuilder of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any
from uuid import UUID

from tidelog.cluster.controller.reassignment_sets import Replicas, ReplicaSets, finished
from tidelog.cluster.image import NO_LEADER, LeaderRecoveryState, PartitionImage
from tidelog.cluster.partition_changes import NO_LEADER_CHANGE
from tidelog.cluster.replica_directories import MIGRATING
from tidelog.protocol.ids import BrokerId
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord


class Election(Enum):
    """The replicas that may be elected when a partition changes."""

    ONLINE = auto()
    """A replica that has every committed record, to keep the partition online; the leader stays if it can."""
    PREFERRED = auto()
    """As ONLINE, but the first replica leads if it can."""
    UNCLEAN = auto()
    """As ONLINE, but any replica rather than none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What a command wants of a partition; None leaves a thing as it is.

    `unclean_shutdown`: a broker that may have lost records it had; it is not remembered as
    eligible. `directories`: where the replicas of some brokers are.
    """

    isr: Replicas | None = None
    sets: ReplicaSets | None = None
    election: Election = Election.ONLINE
    unclean_shutdown: BrokerId | None = None
    leader_recovery_state: int | None = None
    directories: Mapping[BrokerId, UUID] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What holds for a partition whatever the command.

    `may_lead`: whether a replica's broker is active and its directory online.
    `min_insync_replicas` is never more than the replication factor.
    """

    may_lead: Callable[[PartitionImage, BrokerId], bool]
    default_directory: Callable[[BrokerId], UUID]
    min_insync_replicas: int
    tracks_eligible_leaders: bool
    bumps_epoch_on_isr_shrink: bool = False


def change_partition(
    topic_id: UUID, index: int, partition: PartitionImage, rules: Rules, wishes: Wishes
) -> PartitionChangeRecord | None:
    """Return the record that gives `partition` the requested values; None if nothing changes."""
    changes = _Change(partition, rules, wishes).changes()
    if not changes:
        return None
    return PartitionChangeRecord(topic_id=topic_id, partition_id=index, **changes)


class _Change:
    """The partition as it is, and as it will be: the fields without `partition`."""

    def __init__(self, partition: PartitionImage, rules: Rules, wishes: Wishes) -> None:
        self._partition = partition
        self._rules = rules
        self._wishes = wishes
        self._isr = partition.isr if wishes.isr is None else wishes.isr
        self._sets = wishes.sets or ReplicaSets(
            partition.replicas, partition.removing_replicas, partition.adding_replicas
        )
        self._eligible = partition.eligible_leader_replicas
        self._leader = partition.leader
        self._is_unclean = False

    def changes(self) -> dict[str, Any]:
        """Return the fields of the change record that are to be set."""
        self._finish_reassignment()
        self._update_eligible()
        self._elect()
        return self._leadership() | self._replicas() | self._leader_recovery()

    def _finish_reassignment(self) -> None:
        ended = finished(self._sets, self._isr)
        if ended is not None:
            self._isr = ended.isr
            self._sets = ReplicaSets(ended.replicas)

    def _update_eligible(self) -> None:
        if not self._rules.tracks_eligible_leaders or len(self._isr) >= self._rules.min_insync_replicas:
            self._eligible = ()
            return
        candidates = {*self._eligible, *self._partition.isr}
        self._eligible = tuple(
            replica
            for replica in sorted(candidates)
            if replica not in self._isr
            and replica != self._wishes.unclean_shutdown
            and replica in self._sets.replicas
        )

    def _elect(self) -> None:
        leader, self._is_unclean = self._elected()
        if leader == self._leader:
            return
        self._leader = leader
        if self._is_unclean:
            self._isr, self._eligible = (leader,), ()
        elif leader in self._eligible:
            self._isr = (leader,)
            self._eligible = tuple(replica for replica in self._eligible if replica != leader)

    def _elected(self) -> tuple[BrokerId, bool]:
        """Return the leader, and whether it may miss committed records."""
        replicas, current = self._sets.replicas, self._partition.leader
        if self._wishes.election is Election.PREFERRED and self._can_take_over(replicas[0]):
            return replicas[0], False
        for replica in (current, *replicas):
            if self._can_take_over(replica):
                return replica, False
        last_known = self._last_known_leader()
        if last_known is not None:
            return last_known, True
        if self._wishes.election is Election.UNCLEAN:
            for replica in replicas:
                if self._rules.may_lead(self._partition, replica):
                    return replica, True
        return NO_LEADER, False

    def _can_take_over(self, replica: BrokerId) -> bool:
        has_everything = replica in (self._isr or self._eligible)
        return has_everything and self._rules.may_lead(self._partition, replica)

    def _last_known_leader(self) -> BrokerId | None:
        if not self._rules.tracks_eligible_leaders or self._isr or self._eligible:
            return None
        if len(self._partition.last_known_elr) != 1:
            return None
        (last_known,) = self._partition.last_known_elr
        has_its_records = last_known in self._partition.replicas and last_known in self._sets.replicas
        if not has_its_records or not self._rules.may_lead(self._partition, last_known):
            return None
        return last_known

    # The record

    def _leadership(self) -> dict[str, Any]:
        partition = self._partition
        changes: dict[str, Any] = {}
        if self._leader != partition.leader or self._begins_epoch():
            changes["leader"] = self._leader
        if self._eligible != partition.eligible_leader_replicas:
            changes["eligible_leader_replicas"] = self._eligible
        if self._has_new_isr():
            changes["isr"] = self._isr
        if self._rules.tracks_eligible_leaders:
            last_known = self._last_known_after(changes.get("leader", NO_LEADER_CHANGE))
            if last_known != partition.last_known_elr:
                changes["last_known_elr"] = last_known
        return changes

    def _last_known_after(self, leader: BrokerId) -> Replicas:
        """Return the last known leader for a record with the leader `leader`."""
        remembered = self._partition.last_known_elr
        if leader >= 0:
            return ()
        if leader == NO_LEADER and not remembered and self._partition.leader != NO_LEADER:
            remembered = (self._partition.leader,)
        return tuple(replica for replica in remembered if replica in self._sets.replicas)

    def _begins_epoch(self) -> bool:
        if not set(self._partition.replicas) <= set(self._sets.replicas):
            return True
        if not self._rules.bumps_epoch_on_isr_shrink or not self._has_new_isr():
            return False
        return not set(self._partition.isr) <= set(self._isr)

    def _has_new_isr(self) -> bool:
        if self._isr == self._partition.isr:
            return False
        return bool(self._isr) or self._rules.tracks_eligible_leaders

    def _replicas(self) -> dict[str, Any]:
        partition, sets = self._partition, self._sets
        changes: dict[str, Any] = {}
        known = dict(zip(partition.replicas, partition.directories, strict=False)) | dict(
            self._wishes.directories
        )
        directories = tuple(
            known[replica] if replica in known else self._default_directory(replica)
            for replica in sets.replicas
        )
        if directories != (partition.directories or (MIGRATING,) * len(partition.replicas)):
            changes["directories"] = directories
        if sets.replicas != partition.replicas:
            changes["replicas"] = sets.replicas
        if sets.removing != partition.removing_replicas:
            changes["removing_replicas"] = sets.removing
        if sets.adding != partition.adding_replicas:
            changes["adding_replicas"] = sets.adding
        return changes

    def _default_directory(self, replica: BrokerId) -> UUID:
        if replica in self._partition.replicas:
            return MIGRATING
        return self._rules.default_directory(replica)

    def _leader_recovery(self) -> dict[str, Any]:
        current, wished = self._partition.leader_recovery_state, self._wishes.leader_recovery_state
        if wished is not None and wished != current:
            return {"leader_recovery_state": wished}
        if self._is_unclean and self._leader != self._partition.leader:
            return (
                {}
                if current == LeaderRecoveryState.RECOVERING
                else {"leader_recovery_state": int(LeaderRecoveryState.RECOVERING)}
            )
        return {}
