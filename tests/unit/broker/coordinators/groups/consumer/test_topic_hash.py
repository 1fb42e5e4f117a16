"""The hash of topics equals that of Apache Kafka 4.3.1, whose libraries printed the expected numbers."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.support.metadata.images import broker_registration_record, image_after_records
from tidelog.broker.coordinators.groups.consumer.topic_hash import group_hash, topic_hash
from tidelog.cluster.image import PartitionImage, TopicImage

TOPIC_ID = UUID(int=0x0123456789ABCDEF_FEDCBA9876543210)
BROKERS = image_after_records(
    [
        broker_registration_record(1, rack="rack-b"),
        broker_registration_record(2, rack="rack-a"),
        broker_registration_record(3),
    ]
).brokers


def topic(name: str) -> TopicImage:
    """Return a topic whose partition 0 is in two racks, and whose partition 1 is in none."""
    partitions = {
        0: PartitionImage(replicas=(1, 2, 3), isr=(1,)),
        1: PartitionImage(replicas=(3, 9), isr=(3,)),
    }
    return TopicImage(name=name, id=TOPIC_ID, partitions=partitions)


@pytest.mark.parametrize(
    ("name", "of_topic", "of_group"),
    [
        ("t", 7451514285161076431, -7122557400163715829),
        ("topic-1", 2395246885756811105, 7742770481151484262),
        ("größe", -8213271459118577162, 614104065884037713),
        ("日本語🌊", -6918972987509343770, -2645059894767739751),
        ("abcdefgh", 4227995370714729359, -7750063296289272146),
    ],
)
def test_the_hashes_equal_kafkas(name: str, of_topic: int, of_group: int) -> None:
    assert topic_hash(topic(name), BROKERS) == of_topic
    assert group_hash([of_topic, 42]) == of_group


def test_the_hash_of_no_topics_is_0() -> None:
    assert group_hash([]) == 0


def test_the_hash_changes_with_partitions_and_with_racks_only() -> None:
    before = topic_hash(topic("t"), BROKERS)
    more = TopicImage(
        name="t",
        id=TOPIC_ID,
        partitions={**topic("t").partitions, 2: PartitionImage(replicas=(1,), isr=(1,))},
    )
    assert topic_hash(more, BROKERS) != before
    without_racks = dict.fromkeys((3,), BROKERS[3])
    assert topic_hash(topic("t"), without_racks) != before
    other_leader = TopicImage(
        name="t",
        id=TOPIC_ID,
        partitions={
            index: PartitionImage(replicas=each.replicas, isr=each.isr, leader=1, leader_epoch=7)
            for index, each in topic("t").partitions.items()
        },
    )
    assert topic_hash(other_leader, BROKERS) == before
