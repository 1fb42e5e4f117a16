"""The partition of `__remote_log_metadata` that contains the metadata of a user's partition.

Every broker computes the same partition.
Source: RemoteLogMetadataTopicPartitioner of Apache Kafka 4.3 (java.util.Objects.hash of the topic id's lower
and upper half and the partition, then murmur2 of its four bytes).
"""

from __future__ import annotations

from typing import Final

from tidelog.clients.producer.partitioner import murmur2
from tidelog.remote.ports.segment_metadata import TopicIdPartition

_INT32: Final = 0xFFFFFFFF
_INT64: Final = 0xFFFFFFFFFFFFFFFF


def metadata_partition(partition: TopicIdPartition, metadata_partitions: int) -> int:
    """Return the metadata partition of `partition`, of `metadata_partitions` in total.

    It depends on the topic id and the partition number, not on the topic's name.
    """
    topic_id = partition.topic_id.int
    halves = (topic_id & _INT64, topic_id >> 64)
    value = 1
    for part in (*(half & _INT32 ^ half >> 32 for half in halves), partition.partition):
        value = (31 * value + part) & _INT32
    return (murmur2(value.to_bytes(4, "big")) & 0x7FFFFFFF) % metadata_partitions
