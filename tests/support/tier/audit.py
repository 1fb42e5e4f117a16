"""The guarantees of a tiered topic, checked by clients, in the metadata topic, and in the store.

start                    0 <= log start <= local start <= end, local start <= end of the tier + 1
every offset             from log start to end is read once, with the acknowledged value
every tiered offset      is in exactly one finished segment
the store                has the three objects of each finished segment and no others
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import confluent_kafka

from tidelog.clients.admin.admin import Admin, OffsetSpec
from tidelog.clients.consumer.consumer import Consumer
from tidelog.protocol.errors import DecodeError, KafkaError
from tidelog.protocol.ids import TopicPartition, uuid_text
from tidelog.remote.metadata.config import METADATA_TOPIC
from tidelog.remote.metadata.record_codec import decode_event
from tidelog.remote.metadata.store import PartitionMetadataStore, partition_of
from tidelog.remote.objects.layout.object_keys import ObjectKeys
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)

TIMEOUT_S = 60.0
FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED


class Borders(NamedTuple):
    """The offsets of a partition; ends are exclusive. `tiered_end` is 0 if it is unknown."""

    log_start: int
    local_start: int
    tiered_end: int
    end: int

    def require_order(self) -> None:
        """Check the order of the offsets."""
        assert 0 <= self.log_start <= self.local_start <= self.end, self
        assert self.tiered_end <= self.end, self
        is_known = self.tiered_end > 0
        assert not is_known or self.local_start == self.log_start or self.local_start <= self.tiered_end, self


@dataclass
class Written:
    """The acknowledged records of a topic of one partition."""

    topic: str
    values: dict[int, bytes] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    era: int = 0
    """A part of each value, so that values of different eras at the same offset differ."""

    def on_delivery(self, error: object, message: confluent_kafka.Message) -> None:
        """Record a delivery report."""
        if error is not None:
            self.failed.append(str(error))
            return
        offset, value = message.offset(), message.value()
        assert offset is not None and value is not None
        assert self.values.setdefault(offset, value) == value, (
            f"offset {offset} was acknowledged twice with different values"
        )

    def bytes_from(self, offset: int) -> int:
        """Return the bytes of values from `offset` on."""
        return sum(len(value) for at, value in self.values.items() if at >= offset)


class TierAudit:
    """Checks a cluster whose tier is the directory `tier`."""

    def __init__(self, servers: str, tier: Path) -> None:
        self._servers = servers
        self._tier = tier

    def borders(self, topic: str) -> Borders:
        """Return the offsets by ListOffsets."""
        specs = (
            OffsetSpec.EARLIEST,
            OffsetSpec.EARLIEST_LOCAL,
            OffsetSpec.LATEST_TIERED,
            OffsetSpec.LATEST,
        )

        async def request_offsets() -> list[int]:
            name, offsets = TopicPartition(topic, 0), []
            async with Admin(self._servers) as admin:
                for spec in specs:
                    listed = (await admin.list_offsets({name: spec}))[name]
                    if isinstance(listed, KafkaError):
                        raise listed
                    offsets.append(listed.offset)
            return offsets

        log_start, local_start, tiered, end = asyncio.run(request_offsets())
        return Borders(log_start, local_start, tiered + 1, end)

    def segments(self, partition: TopicIdPartition) -> list[RemoteLogSegmentMetadata]:
        """Return all undeleted segments of a partition in the metadata topic, ordered by start offset.

        Raises AssertionError while the partition is being deleted.
        """
        store = asyncio.run(self._metadata())
        assert partition not in [each.topic_id_partition for each in store.deletions()], "it is being deleted"
        return list(store.list_remote_log_segments(partition)) if store.has(partition) else []

    def objects(self, topic_id: UUID) -> set[str]:
        """Return the keys of a topic's objects."""
        paths = self._tier.glob(f"*-{uuid_text(topic_id)}/**/*")
        return {str(path.relative_to(self._tier)) for path in paths if path.is_file()}

    def expected_objects(self, segments: Iterable[RemoteLogSegmentMetadata]) -> set[str]:
        """Return the keys of the objects of finished segments."""
        keys = ObjectKeys()
        return {key for segment in segments if segment.state is FINISHED for key in keys.of(segment).all}

    def require_readable(self, written: Written, borders: Borders) -> None:
        """Check that every retained offset is read as acknowledged, once."""
        read = self.read(written.topic, borders.log_start, borders.end)
        counts = Counter(offset for offset, _ in read)
        assert max(counts.values(), default=1) == 1, [offset for offset in counts if counts[offset] > 1]
        wanted = {at: value for at, value in written.values.items() if at >= borders.log_start}
        assert [offset for offset, _ in read] == sorted(wanted), (borders, len(read), len(wanted))
        assert dict(read) == wanted, "records differ from what was acknowledged"

    def require_covered_once(self, segments: Iterable[RemoteLogSegmentMetadata], borders: Borders) -> None:
        """Check that each remote offset is in exactly one finished segment."""
        spans = [(each.start_offset, each.end_offset) for each in segments if each.state is FINISHED]
        for (_, end), (start, _) in pairwise(spans):
            assert start == end + 1, f"segments {spans} have a gap or an overlap at {end}"
        if borders.local_start > borders.log_start:
            assert spans and spans[0][0] <= borders.log_start, (spans, borders)
        if spans:
            assert spans[-1][1] + 1 == borders.tiered_end, (spans, borders)

    def read(self, topic: str, start: int, end: int) -> list[tuple[int, bytes]]:
        """Return offsets and values from `start` to `end` (exclusive), read by librdkafka."""
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": "audit",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "log_level": 0,
            }
        )
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, start)])
        records: list[tuple[int, bytes]] = []
        try:
            while start < end:
                messages = consumer.consume(min(1000, end - start), TIMEOUT_S)
                assert messages, (
                    f"{topic}: no records from offset {start} on within {TIMEOUT_S} s, the end is {end}"
                )
                for message in messages:
                    error, offset, value = message.error(), message.offset(), message.value()
                    assert error is None, f"{topic}: {error}"
                    assert offset is not None and value is not None
                    records.append((offset, value))
                start = records[-1][0] + 1
        finally:
            consumer.close()
        return records

    async def _metadata(self) -> PartitionMetadataStore:
        store = PartitionMetadataStore()
        async with Admin(self._servers) as admin:
            described = (await admin.describe_topics([METADATA_TOPIC]))[METADATA_TOPIC]
            assert not isinstance(described, KafkaError), described
            names = [TopicPartition(METADATA_TOPIC, each.partition) for each in described.partitions]
        consumer = Consumer(self._servers, exclude_internal_topics=False, auto_offset_reset="earliest")
        async with consumer:
            consumer.assign(names)
            ends = await consumer.end_offsets(names)
            async with asyncio.timeout(TIMEOUT_S):
                while any([await consumer.position(name) < ends[name] for name in names]):
                    for records in (await consumer.poll(200)).values():
                        for record in records:
                            _apply(store, record.value or b"")
        return store


def _apply(store: PartitionMetadataStore, value: bytes) -> None:
    try:
        event = decode_event(value)
    except DecodeError as error:
        raise AssertionError(f"the metadata topic has a record that cannot be decoded: {error}") from error
    partition = partition_of(event)
    store.open(partition)
    store.mark_ready(partition)
    store.apply(event)
