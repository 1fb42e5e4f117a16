"""Invariants of every image that a controller's commands produce, and of every step between two.

`check_image` and `check_step` raise AssertionError with the partition that breaks a rule.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.cluster.features import eligible_leader_replicas_enabled
from tidelog.cluster.image import NO_LEADER, MetadataImage, PartitionImage


def check_image(image: MetadataImage) -> None:
    """Check the invariants of one image."""
    for topic in image.topics_by_name.values():
        assert image.topics_by_id[topic.id] is topic
        assert sorted(topic.partitions) == list(range(len(topic.partitions))), topic
        for index, partition in topic.partitions.items():
            where = f"{topic.name}-{index}: {partition}"
            _check_sets(partition, where)
            allows_unclean = image.topic_configs(topic.name).get("unclean.leader.election.enable") == "true"
            _check_brokers(image, partition, where, allows_unclean=allows_unclean)


def _check_sets(partition: PartitionImage, where: str) -> None:
    replicas, isr = partition.replicas, partition.isr
    eligible = partition.eligible_leader_replicas
    adding, removing = partition.adding_replicas, partition.removing_replicas
    assert replicas, where
    for members in (replicas, isr, eligible, adding, removing):
        assert _distinct(members), where
        assert set(members) <= set(replicas), where
    assert not set(isr) & set(eligible), where
    assert not set(adding) & set(removing), where
    assert partition.leader == NO_LEADER or partition.leader in isr, where
    assert len(partition.directories) == len(replicas), where
    assert partition.leader_epoch <= partition.partition_epoch, where
    assert len(partition.last_known_elr) <= 1, where
    assert partition.leader == NO_LEADER or not partition.last_known_elr, where


def _check_brokers(
    image: MetadataImage, partition: PartitionImage, where: str, *, allows_unclean: bool
) -> None:
    if partition.leader != NO_LEADER:
        assert image.brokers[partition.leader].is_active, where
    if eligible_leader_replicas_enabled(image):
        # As in Kafka: a reassignment cancelled with unclean election may name a dead replica as leader.
        for member in partition.isr if not allows_unclean else ():
            assert image.brokers[member].is_active, where
    else:
        assert partition.isr, where
        assert not partition.eligible_leader_replicas, where


def check_step(before: MetadataImage, after: MetadataImage) -> None:
    """Check the invariants of one command: epochs never decrease, and increase with each change."""
    assert after.offset >= before.offset
    for topic_id, topic in before.topics_by_id.items():
        later = after.topics_by_id.get(topic_id)
        for index, old in topic.partitions.items() if later is not None else ():
            assert later is not None
            new = later.partitions[index]
            description = f"{topic.name}-{index}: {old} -> {new}"
            assert new.leader_epoch >= old.leader_epoch, description
            assert new.partition_epoch >= old.partition_epoch, description
            assert new == old or new.partition_epoch > old.partition_epoch, description
            assert new.leader == old.leader or new.leader_epoch > old.leader_epoch, description
            removed_replicas = set(old.replicas) - set(new.replicas)
            assert not removed_replicas or new.leader_epoch > old.leader_epoch, description
    for broker, registered in before.brokers.items():
        later_registration = after.brokers.get(broker)
        if later_registration is not None:
            assert later_registration.epoch >= registered.epoch
            same = later_registration.epoch == registered.epoch
            assert same == (later_registration.incarnation_id == registered.incarnation_id)


def _distinct(members: Sequence[int]) -> bool:
    return len(set(members)) == len(members)
