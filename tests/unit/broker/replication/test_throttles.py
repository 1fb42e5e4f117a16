"""Throttles of replication follow the configs in the metadata."""

from __future__ import annotations

from uuid import UUID

from tidelog.broker.replication.throttles import ReplicationThrottles
from tidelog.cluster.delta import MetadataDelta
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.metadata_records.remove_topic_record import RemoveTopicRecord
from tidelog.protocol.metadata_records.topic_record import TopicRecord
from tidelog.protocol.schema import MetadataRecord

TOPIC, BROKER = 2, 4


class FollowerThrottles:
    """Throttles of broker 1 that follow an image."""

    def __init__(self) -> None:
        self.throttles = ReplicationThrottles(1, window_ms=1_000, window_count=11)
        self.image = MetadataImage(cluster_id="test")

    def replay(self, *records: MetadataRecord) -> None:
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        self.image = delta.image(self.image.offset + 1, 1)
        self.throttles.apply(delta, self.image)


def config(kind: int, resource: str, key: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=kind, resource_name=resource, name=key, value=value)


def test_a_broker_rate_overrides_the_default_and_none_is_unlimited() -> None:
    following = FollowerThrottles()
    key = "follower.replication.throttled.rate"
    following.replay(config(BROKER, "", key, "1000"))
    assert (following.throttles.follower.rate, following.throttles.leader.rate) == (1_000, None)
    following.replay(config(BROKER, "1", key, "2000"))
    assert following.throttles.follower.rate == 2_000
    following.replay(config(BROKER, "2", key, "5"))
    assert following.throttles.follower.rate == 2_000
    following.replay(config(BROKER, "1", key, None), config(BROKER, "", key, None))
    assert following.throttles.follower.rate is None


def test_a_topic_names_its_throttled_replicas_for_each_side() -> None:
    following = FollowerThrottles()
    following.replay(
        TopicRecord(name="t", topic_id=UUID(int=9)),
        config(TOPIC, "t", "leader.replication.throttled.replicas", "0:1,1:2"),
        config(TOPIC, "t", "follower.replication.throttled.replicas", "*"),
    )
    leader, follower = following.throttles.leader, following.throttles.follower
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    assert leader.is_throttled(first) and not leader.is_throttled(second)
    assert follower.is_throttled(first) and follower.is_throttled(second)
    following.replay(RemoveTopicRecord(topic_id=UUID(int=9)))
    assert not leader.is_throttled(first) and not follower.is_throttled(first)
