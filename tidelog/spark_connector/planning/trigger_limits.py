"""The limits of one micro-batch: a maximum of offsets, and a minimum to wait for.

Source: KafkaMicroBatchStream (rateLimit, delayBatch) of Apache Spark; SPARK-19371, SPARK-26718, SPARK-35312.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.spark_connector.planning.offsets_json import Offsets


def limited(
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
    sizes = {one: size for one, last in end.items() if one in begins and (size := last - begins[one]) > 0}
    total = sum(sizes.values())
    if total == 0:
        return dict(end)
    cut = dict(end)
    for one, size in sizes.items():
        share = max(max_offsets * size // total, 1)
        cut[one] = min(end[one], begins[one] + share)
    return cut


def waits(
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
    return sum(last - start.get(one, 0) for one, last in end.items()) < min_offsets
