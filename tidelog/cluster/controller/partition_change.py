"""One change of one partition: the requested values, the resulting leader, and the record of the change.

Every command that changes a partition calls `change_partition`, which performs these steps in order:

1. A reassignment whose new replicas are all in sync is completed.
2. Eligible leader replicas (KIP-966): while the ISR is smaller than min.insync.replicas, the high watermark
   does not advance, so a replica that is then removed from the ISR still has every committed record. It
   remains eligible until the ISR is large enough again, or until an unclean shutdown.
3. The leader remains if it can. Otherwise the leader is the first replica that is in sync or, if no replica
   is, eligible. If there is neither, it is the last known leader, if there is exactly one; any other replica
   becomes leader only in an unclean election. The last two may lose records: the ISR is then only the new
   leader, which is recovering.
4. The leader epoch increases with a new leader and when a replica is removed from the partition; with a
   smaller ISR only below metadata.version 3.6.

Deliberate difference from Kafka 4.3, which keeps them: a replica that is removed from the partition is no
longer eligible nor the last known leader. It deletes its records; if it were assigned again, empty, it would
be considered to have all of them.

Source: KIP-455, KIP-858, KIP-966; PartitionChangeBuilder of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from enum import Enum, auto
from typing import Any
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.cluster.controller.reassignment_sets import Replicas, ReplicaSets, complete_reassignment
from tidelog.cluster.image import NO_LEADER, LeaderRecoveryState, PartitionImage
from tidelog.cluster.partition_changes import NO_LEADER_CHANGE
from tidelog.cluster.replica_directories import MIGRATING
from tidelog.protocol.ids import BrokerId
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord


class Election(Enum):
    """The replicas that may be elected when a partition changes."""

    ONLINE = auto()
    """A replica that has all committed records; the leader remains if it can."""
    PREFERRED = auto()
    """As ONLINE, but the preferred replica, the first one, leads if it can."""
    UNCLEAN = auto()
    """As ONLINE, but if there is no such replica, any other one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedChange:
    """The changes that a command requests for a partition; None leaves a value unchanged.

    `unclean_shutdown`: a broker that may have lost records and therefore does not become eligible.
    `directories`: the log directories of the replicas on some brokers.
    """

    isr: Replicas | None = None
    sets: ReplicaSets | None = None
    election: Election = Election.ONLINE
    unclean_shutdown: BrokerId | None = None
    leader_recovery_state: int | None = None
    directories: Mapping[BrokerId, UUID] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRules:
    """The conditions that apply to every change of a partition.

    `can_lead`: returns whether a replica's broker is active and its directory online.
    `min_insync_replicas` is never more than the replication factor.
    """

    can_lead: Callable[[PartitionImage, BrokerId], bool]
    default_directory: Callable[[BrokerId], UUID]
    min_insync_replicas: int
    tracks_eligible_leaders: bool
    bumps_epoch_on_isr_shrink: bool = False


def change_partition(
    topic_id: UUID, index: int, partition: PartitionImage, rules: PartitionRules, requested: RequestedChange
) -> PartitionChangeRecord | None:
    """Return the record that gives `partition` the requested values; None if nothing changes."""
    changes = _Change(partition, rules, requested).changes()
    if not changes:
        return None
    return PartitionChangeRecord(topic_id=topic_id, partition_id=index, **changes)


class _Change:
    """Computes one change: `_partition` is the partition before it, the other fields are those after it."""

    def __init__(self, partition: PartitionImage, rules: PartitionRules, requested: RequestedChange) -> None:
        self._partition = partition
        self._rules = rules
        self._requested = requested
        self._isr = partition.isr if requested.isr is None else requested.isr
        self._sets = requested.sets or ReplicaSets(
            partition.replicas, partition.removing_replicas, partition.adding_replicas
        )
        self._eligible = partition.eligible_leader_replicas
        self._leader = partition.leader
        self._is_unclean = False

    def changes(self) -> dict[str, Any]:
        """Return the values of the change record's fields."""
        self._finish_reassignment()
        self._update_eligible()
        self._elect()
        return self._leadership() | self._replicas() | self._leader_recovery()

    def _finish_reassignment(self) -> None:
        completion = complete_reassignment(self._sets, self._isr)
        if completion is not None:
            self._isr = completion.isr
            self._sets = ReplicaSets(completion.replicas)

    def _update_eligible(self) -> None:
        if not self._rules.tracks_eligible_leaders or len(self._isr) >= self._rules.min_insync_replicas:
            self._eligible = ()
            return
        candidates = {*self._eligible, *self._partition.isr}
        self._eligible = tuple(
            replica
            for replica in sorted(candidates)
            if replica not in self._isr
            and replica != self._requested.unclean_shutdown
            and replica in self._sets.replicas
        )

    def _elect(self) -> None:
        leader, self._is_unclean = self._choose_leader()
        if leader == self._leader:
            return
        self._leader = leader
        if self._is_unclean:
            self._isr, self._eligible = (leader,), ()
        elif leader in self._eligible:
            self._isr = (leader,)
            self._eligible = tuple(replica for replica in self._eligible if replica != leader)

    def _choose_leader(self) -> tuple[BrokerId, bool]:
        """Return the leader, and whether it may lack committed records."""
        replicas, current = self._sets.replicas, self._partition.leader
        if self._requested.election is Election.PREFERRED and self._is_electable(replicas[0]):
            return replicas[0], False
        for replica in (current, *replicas):
            if self._is_electable(replica):
                return replica, False
        last_known = self._last_known_leader()
        if last_known is not None:
            return last_known, True
        if self._requested.election is Election.UNCLEAN:
            for replica in replicas:
                if self._rules.can_lead(self._partition, replica):
                    return replica, True
        return NO_LEADER, False

    def _is_electable(self, replica: BrokerId) -> bool:
        has_committed_records = replica in (self._isr or self._eligible)
        return has_committed_records and self._rules.can_lead(self._partition, replica)

    def _last_known_leader(self) -> BrokerId | None:
        if not self._rules.tracks_eligible_leaders or self._isr or self._eligible:
            return None
        if len(self._partition.last_known_elr) != 1:
            return None
        (last_known,) = self._partition.last_known_elr
        has_its_records = last_known in self._partition.replicas and last_known in self._sets.replicas
        if not has_its_records or not self._rules.can_lead(self._partition, last_known):
            return None
        return last_known

    # The record

    def _leadership(self) -> dict[str, Any]:
        partition = self._partition
        changes: dict[str, Any] = {}
        if self._leader != partition.leader or self._needs_new_epoch():
            changes["leader"] = self._leader
        if self._eligible != partition.eligible_leader_replicas:
            changes["eligible_leader_replicas"] = self._eligible
        if self._has_new_isr():
            changes["isr"] = self._isr
        if self._rules.tracks_eligible_leaders:
            last_known = self._new_last_known_elr(changes.get("leader", NO_LEADER_CHANGE))
            if last_known != partition.last_known_elr:
                changes["last_known_elr"] = last_known
        return changes

    def _new_last_known_elr(self, leader: BrokerId) -> Replicas:
        """Return the last known eligible leader replicas for a record with the leader `leader`."""
        last_known = self._partition.last_known_elr
        if leader >= 0:
            return ()
        if leader == NO_LEADER and not last_known and self._partition.leader != NO_LEADER:
            last_known = (self._partition.leader,)
        return tuple(replica for replica in last_known if replica in self._sets.replicas)

    def _needs_new_epoch(self) -> bool:
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
            self._requested.directories
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
        current, requested = self._partition.leader_recovery_state, self._requested.leader_recovery_state
        if requested is not None and requested != current:
            return {"leader_recovery_state": requested}
        if self._is_unclean and self._leader != self._partition.leader:
            return (
                {}
                if current == LeaderRecoveryState.RECOVERING
                else {"leader_recovery_state": int(LeaderRecoveryState.RECOVERING)}
            )
        return {}
