"""The hash of the metadata of the topics that a group subscribes to.

A coordinator increments the group epoch when the hash changes: partitions were added, a topic was created or
deleted, or replicas moved to other racks. The hash equals Kafka's, so that a group that moves between
coordinators of Tidelog and Apache Kafka keeps its epoch.

Source: Utils.computeTopicHash and computeGroupHash of Apache Kafka 4.3.1: XXH3 over the little-endian bytes
that hash4j defines.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final

import xxhash

from tidelog.cluster.image import BrokerImage, TopicImage
from tidelog.protocol.ids import BrokerId

_MAGIC: Final = b"\0"
_INT: Final = struct.Struct("<i")
_TWO_LONGS: Final = struct.Struct("<QQ")
_NO_TOPICS: Final = 0


def topic_hash(topic: TopicImage, brokers: Mapping[BrokerId, BrokerImage]) -> int:
    """Return the hash of one topic: its id, name, partitions, and the racks of their replicas."""
    most_significant, least_significant = divmod(topic.id.int, 1 << 64)
    data = bytearray(_MAGIC)
    data += _TWO_LONGS.pack(most_significant, least_significant)
    data += _text(topic.name)
    data += _INT.pack(len(topic.partitions))
    racks_of = {broker.id: broker.rack for broker in brokers.values() if broker.rack is not None}
    for index in range(len(topic.partitions)):
        data += _INT.pack(index)
        if racks_of:
            replicas = topic.partitions[index].replicas
            for rack in sorted(racks_of[broker] for broker in replicas if broker in racks_of):
                data += _INT.pack(len(rack.encode("utf-16-le")) // 2) + _text(rack)
    return _signed(xxhash.xxh3_64_intdigest(bytes(data)))


def group_hash(hashes: Sequence[int]) -> int:
    """Return the hash of topics with these hashes, in the order of their names; 0 if there are none."""
    data = struct.pack(f"<{len(hashes)}q", *hashes)
    return _signed(xxhash.xxh3_64_intdigest(data)) if data else _NO_TOPICS


def _text(text: str) -> bytes:
    data = text.encode("utf-16-le")
    return data + _INT.pack(len(data) // 2)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
