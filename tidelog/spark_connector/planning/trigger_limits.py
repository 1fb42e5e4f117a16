"""The limits of one micro-batch: a maximum of offsets, and a minimum to wait for.

Source: KafkaMicroBatchStream (rateLimit, delayBatch) of Apache Spark; SPARK-19371, SPARK-26718, SPARK-35312.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.spark_connector.planning.offsets_json import Offsets


def limit_end(
    max_offsets: int,
    start: Mapping[TopicPartition, Offset],
    end: Mapping[TopicPartition, Offset],
    new_starts: Mapping[TopicPartition, Offset],
) -> Offsets:
    """Reduce `end` so that about `max_offsets` are between it and `start`, each partition by its share.

    A partition gets at least one offset, so that large ones do not block it. `new_starts` has the start
    offsets of partitions that are not in `start`.
    """
    begins = {**new_starts, **start}
    sizes = {
        topic_partition: size
        for topic_partition, last in end.items()
        if topic_partition in begins and (size := last - begins[topic_partition]) > 0
    }
    total = sum(sizes.values())
    if total == 0:
        return dict(end)
    limited_end = dict(end)
    for topic_partition, size in sizes.items():
        share = max(max_offsets * size // total, 1)
        limited_end[topic_partition] = min(end[topic_partition], begins[topic_partition] + share)
    return limited_end


def should_wait(
    min_offsets: int,
    start: Mapping[TopicPartition, Offset],
    end: Mapping[TopicPartition, Offset],
    *,
    waited_ms: int,
    max_trigger_delay_ms: int,
) -> bool:
    """Return whether to wait: fewer than `min_offsets` are available and the maximum delay has not passed."""
    if waited_ms >= max_trigger_delay_ms:
        return False
    return sum(last - start.get(topic_partition, 0) for topic_partition, last in end.items()) < min_offsets
