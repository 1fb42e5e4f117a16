"""Offsets of partitions for commands that need all of them (shell)."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.clients.admin.admin import Admin, ListedOffset
from tidelog.protocol.ids import Offset, TopicPartition


async def listed_offsets(
    admin: Admin, partitions: Iterable[TopicPartition], spec: int
) -> dict[TopicPartition, Offset]:
    """Return the offset of each partition by `OffsetSpec` or time in ms. Errors: KafkaError of the first."""
    offsets: dict[TopicPartition, Offset] = {}
    for partition, listed in (await admin.list_offsets(dict.fromkeys(partitions, spec))).items():
        if not isinstance(listed, ListedOffset):
            raise listed
        offsets[partition] = listed.offset
    return offsets
