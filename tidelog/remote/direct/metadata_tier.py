"""Remote storage as known to brokers, from the records of `__remote_log_metadata` (shell).

First the leaders' epochs are requested, then the metadata is read to its end: metadata of segments is never
older than the lineage that selects among them. The epochs of a partition are requested again only after its
leader has changed: within an epoch, a leader only appends.

Bounds: about 70 bytes for each segment of the requested partitions. Errors: KafkaError.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import field
from functools import partial
from typing import Any

from tidelog.base.dataclass import dataclass
from tidelog.clients.admin.admin import Admin, OffsetSpec
from tidelog.clients.consumer.partition_reader import PartitionReader
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import LeaderEpoch, Offset, TopicPartition
from tidelog.remote.direct.partition_tier import PartitionTier
from tidelog.remote.inspection.broker_queries import BrokerQueries, run_concurrently
from tidelog.remote.metadata.config import METADATA_TOPIC
from tidelog.remote.metadata.partitioning import metadata_partition
from tidelog.remote.metadata.record_codec import decode_event
from tidelog.remote.metadata.store import PartitionMetadataStore, partition_of
from tidelog.remote.ports.segment_metadata import TopicIdPartition
from tidelog.storage.leader_epoch import EpochEntry

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _MetadataPartition:
    """The read position in a metadata partition, and the user partitions for which it was read."""

    next_offset: Offset = 0
    partitions: set[TopicIdPartition] = field(default_factory=set)


class MetadataTier:
    """Reads the remote metadata of partitions and the epochs of their leaders.

    Requests are sent through `admin`. The metadata topic is read by clients with `reader_options`, which are
    those of ConsumerConfig.
    """

    def __init__(self, admin: Admin, reader_options: Mapping[str, Any]) -> None:
        self._brokers = BrokerQueries(admin)
        self._reader_options = {**reader_options, "isolation_level": "read_uncommitted"}
        self._store = PartitionMetadataStore()
        self._read: dict[int, _MetadataPartition] = {}
        self._lineages: dict[TopicIdPartition, tuple[LeaderEpoch, tuple[EpochEntry, ...]]] = {}
        self.records_read = 0
        """The number of records of the metadata topic that were read."""

    async def tiers(self, names: Collection[TopicPartition]) -> dict[TopicPartition, PartitionTier]:
        """Return the current remote data of those of `names` that exist."""
        if not names:
            return {}
        topics = await self._brokers.existing_topics(sorted({name.topic for name in names}))
        partitions: dict[TopicPartition, TopicIdPartition] = {}
        epochs: dict[TopicPartition, LeaderEpoch] = {}
        for topic in topics:
            for entry in topic.partitions:
                name = TopicPartition(topic.name, entry.partition)
                if name in names:
                    partitions[name] = TopicIdPartition(topic.topic_id, *name)
                    epochs[name] = entry.leader_epoch
        await self._update_lineages(partitions, epochs)
        await self._follow(partitions.values())
        return {
            name: PartitionTier(partition, self._lineages[partition][1], self._store)
            for name, partition in partitions.items()
        }

    # --- lineage --------------------------------------------------------------------------

    async def _update_lineages(
        self,
        partitions: Mapping[TopicPartition, TopicIdPartition],
        epochs: Mapping[TopicPartition, LeaderEpoch],
    ) -> None:
        unknown = [
            name
            for name, partition in partitions.items()
            if self._lineages.get(partition, (None,))[0] != epochs[name]
        ]
        if not unknown:
            return
        listed = await self._brokers.list_offsets(unknown, OffsetSpec.EARLIEST)
        starts = {name: start.offset for name, start in listed.items()}
        walks = await self._brokers.lineages(epochs, starts)
        for name, walk in walks.items():
            self._lineages[partitions[name]] = (epochs[name], walk.entries)

    # --- the metadata topic ---------------------------------------------------------------

    async def _follow(self, partitions: Collection[TopicIdPartition]) -> None:
        count = await self._brokers.metadata_partition_count()
        by_number: dict[int, set[TopicIdPartition]] = {}
        for partition in partitions:
            if not self._store.has(partition):
                self._store.open(partition)
                self._store.mark_ready(partition)
            if count:
                by_number.setdefault(metadata_partition(partition, count), set()).add(partition)
        for number, requested in by_number.items():
            position = self._read.setdefault(number, _MetadataPartition())
            if not requested <= position.partitions:
                self._read_again(position, requested)
        bounds = await self._bounds(by_number)

        async def read_new(number: int, start: Offset, end: Offset) -> None:
            position = self._read[number]
            if not start <= position.next_offset <= end and position.next_offset:
                # It was truncated or re-created: the metadata may be obsolete.
                self._read_again(position, set())
            first = max(start, position.next_offset)
            if first < end:
                await self._read_records(number, first, end, position)
            position.next_offset = end

        # All tasks have ended after this: one that continued would apply old events to the next attempt.
        await run_concurrently([partial(read_new, number, *bounds[number]) for number in by_number])

    def _read_again(self, position: _MetadataPartition, added: set[TopicIdPartition]) -> None:
        """Read the metadata again from the start, for the partitions in `added` too."""
        position.next_offset = 0
        position.partitions |= added
        for partition in position.partitions:
            self._store.drop(partition)
            self._store.open(partition)
            self._store.mark_ready(partition)

    async def _bounds(self, numbers: Collection[int]) -> dict[int, tuple[Offset, Offset]]:
        names = [TopicPartition(METADATA_TOPIC, number) for number in numbers]
        if not names:
            return {}
        starts = await self._brokers.list_offsets(names, OffsetSpec.EARLIEST)
        ends = await self._brokers.list_offsets(names, OffsetSpec.LATEST)
        return {name.partition: (starts[name].offset, ends[name].offset) for name in names}

    async def _read_records(
        self, number: int, start: Offset, end: Offset, position: _MetadataPartition
    ) -> None:
        name = TopicPartition(METADATA_TOPIC, number)
        options = {**self._reader_options, "start_offset": start, "end_offset": end}
        async with PartitionReader(topic_partition=name, **options) as reader:
            async for record in reader.records():
                self.records_read += 1
                try:
                    event = decode_event(record.value or b"")
                except DecodeError as error:
                    _log.error("Ignoring the record at offset %d of %s: %s", record.offset, name, error)
                    continue
                if partition_of(event) in position.partitions:
                    self._store.apply(event)
