"""Changes of one partition: elections, leader epochs, eligible leader replicas, ends of reassignments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

import pytest

from tidelog.cluster.controller.partition_change import (
    Election,
    PartitionRules,
    RequestedChange,
    change_partition,
)
from tidelog.cluster.controller.reassignment_sets import (
    ReplicaSets,
    begin_reassignment,
    complete_reassignment,
    revert_reassignment,
)
from tidelog.cluster.image import LeaderRecoveryState, PartitionImage
from tidelog.cluster.partition_changes import changed_partition

RECOVERED, RECOVERING = LeaderRecoveryState


def partition_image(**fields: Any) -> PartitionImage:
    defaults: dict[str, Any] = {
        "replicas": (2, 1, 3),
        "isr": (2, 1, 3),
        "leader": 1,
        "leader_epoch": 100,
        "partition_epoch": 200,
    }
    partition = PartitionImage(**(defaults | fields))
    directories = tuple(UUID(int=300 + replica) for replica in partition.replicas)
    return with_directories(partition, directories)


def with_directories(partition: PartitionImage, directories: tuple[UUID, ...]) -> PartitionImage:
    values = {name: getattr(partition, name) for name in partition.__dataclass_fields__}
    return PartitionImage(**(values | {"directories": directories}))


def rules(
    live: Iterable[int] = (1, 2, 3, 4, 5), *, min_insync: int = 2, eligible: bool = True, bumps: bool = False
) -> PartitionRules:
    alive = tuple(live)
    return PartitionRules(
        can_lead=lambda _, broker: broker in alive,
        default_directory=lambda broker: UUID(int=300 + broker),
        min_insync_replicas=min_insync,
        tracks_eligible_leaders=eligible,
        bumps_epoch_on_isr_shrink=bumps,
    )


def change(
    partition: PartitionImage, partition_rules: PartitionRules | None = None, **changes: Any
) -> PartitionImage:
    """Return `partition` after the change; the same object if nothing changed."""
    record = change_partition(
        UUID(int=9), 0, partition, partition_rules or rules(), RequestedChange(**changes)
    )
    return partition if record is None else changed_partition(partition, record)


# Elections


def test_a_change_without_fields_writes_no_record() -> None:
    partition = partition_image()
    assert change(partition) is partition


def test_a_live_in_sync_leader_stays_leader() -> None:
    changed = change(partition_image(), isr=(1, 2))
    assert (changed.leader, changed.leader_epoch, changed.partition_epoch) == (1, 100, 201)


def test_the_first_live_in_sync_replica_becomes_leader() -> None:
    changed = change(partition_image(), rules((3,)), isr=(2, 3))
    assert (changed.leader, changed.isr, changed.leader_epoch) == (3, (2, 3), 101)


def test_the_preferred_replica_becomes_leader_only_on_request_and_in_sync() -> None:
    assert change(partition_image(), election=Election.ONLINE).leader == 1
    assert change(partition_image(), election=Election.PREFERRED).leader == 2
    assert change(partition_image(isr=(1, 3)), rules(min_insync=1), election=Election.PREFERRED).leader == 1


def test_a_preferred_election_without_a_live_preferred_replica_keeps_a_leader() -> None:
    assert change(partition_image(), rules((3,)), election=Election.PREFERRED).leader == 3


def test_a_partition_without_live_in_sync_replicas_has_no_leader() -> None:
    changed = change(partition_image(isr=(1,)), rules((2, 3), eligible=False), isr=())
    assert (changed.leader, changed.isr) == (-1, (1,))


def test_after_an_unclean_election_the_isr_is_the_recovering_leader() -> None:
    changed = change(
        partition_image(isr=(1,)), rules((3,), eligible=False), isr=(), election=Election.UNCLEAN
    )
    assert (changed.leader, changed.isr) == (3, (3,))
    assert changed.leader_recovery_state == RECOVERING


def test_an_unclean_election_prefers_an_in_sync_replica() -> None:
    changed = change(
        partition_image(isr=(1, 3)), rules((2, 3), min_insync=1), isr=(3,), election=Election.UNCLEAN
    )
    assert (changed.leader, changed.leader_recovery_state) == (3, RECOVERED)


def test_a_recovered_leader_is_recorded() -> None:
    recovering = partition_image(isr=(1,), leader_recovery_state=RECOVERING)
    changed = change(recovering, isr=(1,), leader_recovery_state=RECOVERED)
    assert (changed.leader_recovery_state, changed.leader_epoch) == (RECOVERED, 100)


# Leader epochs


@pytest.mark.parametrize(("bumps", "epoch"), [(False, 100), (True, 101)])
def test_isr_shrink_raises_the_leader_epoch_only_below_metadata_version_3_6(bumps: bool, epoch: int) -> None:
    assert change(partition_image(), rules(bumps=bumps), isr=(1, 2)).leader_epoch == epoch
    assert change(partition_image(isr=(1,)), rules(bumps=bumps), isr=(1, 2)).leader_epoch == 100


def test_a_removed_replica_raises_the_leader_epoch() -> None:
    changed = change(partition_image(), sets=ReplicaSets((2, 1)), isr=(2, 1))
    assert (changed.leader, changed.leader_epoch) == (1, 101)


def test_an_added_replica_does_not_raise_the_leader_epoch() -> None:
    changed = change(partition_image(), sets=begin_reassignment(partition_image(), (2, 1, 3, 4)))
    assert (changed.replicas, changed.adding_replicas, changed.leader_epoch) == ((2, 1, 3, 4), (4,), 100)


# Eligible leaders


def test_a_replica_that_leaves_an_isr_below_min_insync_replicas_becomes_eligible() -> None:
    partition = change(partition_image(), isr=(1, 2))
    assert partition.eligible_leader_replicas == ()
    partition = change(partition, isr=(1,))
    assert partition.eligible_leader_replicas == (2,)
    partition = change(partition, rules(()), isr=())
    assert (partition.leader, partition.isr) == (-1, ())
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ((1, 2), (1,))


def test_an_eligible_replica_becomes_leader_and_the_only_isr_member() -> None:
    offline = partition_image(isr=(), leader=-1, eligible_leader_replicas=(1, 2), last_known_elr=(1,))
    changed = change(offline, rules((2, 3)))
    assert (changed.leader, changed.isr, changed.eligible_leader_replicas) == (2, (2,), (1,))
    assert (changed.last_known_elr, changed.leader_recovery_state) == ((), RECOVERED)


def test_an_isr_of_min_insync_replicas_clears_eligible_replicas() -> None:
    partition = partition_image(isr=(1,), eligible_leader_replicas=(2, 3))
    assert change(partition, isr=(1, 3)).eligible_leader_replicas == ()


def test_a_replica_after_an_unclean_shutdown_is_not_eligible() -> None:
    partition = partition_image(isr=(1,), eligible_leader_replicas=(2,))
    changed = change(partition, rules((2, 3)), isr=(), unclean_shutdown=1)
    assert (changed.leader, changed.isr, changed.eligible_leader_replicas) == (2, (2,), ())


def test_the_last_known_leader_becomes_a_recovering_leader_when_no_replica_is_eligible() -> None:
    partition = partition_image(isr=(), leader=-1, eligible_leader_replicas=(1,), last_known_elr=(1,))
    lost = change(partition, rules(()), unclean_shutdown=1)
    assert (lost.leader, lost.eligible_leader_replicas, lost.last_known_elr) == (-1, (), (1,))
    assert change(lost, rules((2, 3))) is lost
    changed = change(lost, rules((1, 2, 3)))
    assert (changed.leader, changed.isr, changed.last_known_elr) == (1, (1,), ())
    assert changed.leader_recovery_state == RECOVERING


def test_eligible_replicas_are_removed_while_the_feature_is_disabled() -> None:
    partition = partition_image(isr=(1,), eligible_leader_replicas=(2,))
    assert change(partition, rules(eligible=False)).eligible_leader_replicas == ()


def test_a_removed_replica_is_not_eligible() -> None:
    """Kafka 4.3 keeps it, and would treat it as complete if it returned empty."""
    partition = partition_image(replicas=(4, 1), isr=(1, 4), leader=4, removing_replicas=(4,))
    changed = change(partition)
    assert (changed.replicas, changed.isr, changed.eligible_leader_replicas) == ((1,), (1,), ())


def test_a_removed_last_known_leader_is_forgotten() -> None:
    """Kafka 4.3 keeps it, and then refuses every change of the partition: "Replica 4 is not assigned"."""
    partition = partition_image(replicas=(4, 1), isr=(), leader=-1, adding_replicas=(4,), last_known_elr=(4,))
    revert = revert_reassignment(partition)
    assert revert is not None
    reverted_partition = change(partition, rules(()), isr=revert.isr, sets=ReplicaSets(revert.replicas))
    assert (reverted_partition.replicas, reverted_partition.leader, reverted_partition.last_known_elr) == (
        (1,),
        -1,
        (),
    )
    leaderless_partition = partition_image(replicas=(1,), isr=(), leader=-1, last_known_elr=(4,))
    assert change(leaderless_partition, sets=begin_reassignment(leaderless_partition, (4, 1))).leader == -1


# Reassignments


def test_a_reassignment_removes_replicas_when_the_added_ones_are_in_sync() -> None:
    partition = change(partition_image(), sets=begin_reassignment(partition_image(), (4, 1)))
    assert partition.replicas == (4, 1, 2, 3)
    assert (partition.adding_replicas, partition.removing_replicas) == ((4,), (2, 3))
    waiting = change(partition, isr=(2, 1, 3))
    assert waiting is partition
    done = change(partition, isr=(2, 1, 3, 4))
    assert (done.replicas, done.isr, done.leader) == ((4, 1), (1, 4), 1)
    assert (done.adding_replicas, done.removing_replicas) == ((), ())
    assert done.leader_epoch == partition.leader_epoch + 1
    assert done.directories == (UUID(int=304), UUID(int=301))


def test_a_removed_leader_is_replaced_when_the_reassignment_ends() -> None:
    partition = change(partition_image(), sets=begin_reassignment(partition_image(), (4, 2)))
    done = change(partition, isr=(2, 1, 3, 4))
    assert (done.leader, done.isr) == (4, (2, 4))


def test_a_reordering_of_replicas_is_completed_at_once() -> None:
    changed = change(partition_image(), sets=begin_reassignment(partition_image(), (3, 2, 1)))
    assert (changed.replicas, changed.leader, changed.leader_epoch) == ((3, 2, 1), 1, 100)
    assert changed.directories == tuple(UUID(int=300 + replica) for replica in (3, 2, 1))


def test_a_reassignment_to_fewer_replicas_waits_for_the_remaining_isr() -> None:
    partition = partition_image(isr=(2, 3), leader=2)
    assert complete_reassignment(begin_reassignment(partition, (1, 3)), partition.isr) is None
    assert complete_reassignment(begin_reassignment(partition, (3,)), partition.isr) == ((3,), (3,))


def test_a_replaced_reassignment_keeps_the_original_replicas() -> None:
    under_way = change(partition_image(), sets=begin_reassignment(partition_image(), (4, 1, 2)))
    assert begin_reassignment(under_way, (5, 1, 2)) == ReplicaSets(
        (5, 1, 2, 3, 4), removing=(3, 4), adding=(5,)
    )
    assert begin_reassignment(under_way, (4, 5, 1)) == ReplicaSets(
        (4, 5, 1, 2, 3), removing=(2, 3), adding=(4, 5)
    )
    assert begin_reassignment(under_way, (2, 1, 3)) == ReplicaSets((2, 1, 3, 4), removing=(4,))
    back = change(under_way, sets=begin_reassignment(under_way, (2, 1, 3)))
    assert (back.replicas, back.adding_replicas, back.removing_replicas) == ((2, 1, 3), (), ())


def test_a_cancelled_reassignment_removes_the_added_replicas() -> None:
    under_way = change(partition_image(), sets=begin_reassignment(partition_image(), (4, 1, 2)))
    assert revert_reassignment(under_way) == ((1, 2, 3), (2, 1, 3), False)
    only_new = partition_image(replicas=(4, 1), isr=(4,), leader=4, adding_replicas=(4,))
    assert revert_reassignment(only_new) == ((1,), (1,), True)
    assert (
        revert_reassignment(partition_image(replicas=(4,), isr=(4,), leader=4, adding_replicas=(4,))) is None
    )


def test_a_broker_sets_the_directory_of_its_replica() -> None:
    changed = change(partition_image(), directories={1: UUID(int=777)})
    assert changed.directory_of(1) == UUID(int=777)
    assert (changed.leader, changed.leader_epoch, changed.partition_epoch) == (1, 100, 201)
