"""Remote storage as known to brokers, from the records of `__remote_log_metadata` (shell).

First the leaders' epochs are requested, then the metadata is read to its end: metadata of segments is never
older than the lineage that selects among them. The epochs of a partition are requested again only after its
leader has changed: within an epoch, a leader only appends.

Bounds: about 70 bytes for each segment of the requested partitions. Errors: KafkaError.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from tidelog.clients.admin.admin import Admin, OffsetSpec
from tidelog.clients.consumer.partition_reader import PartitionReader
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.ids import LeaderEpoch, Offset, TopicPartition
from tidelog.remote.direct.partition_tier import PartitionTier
from tidelog.remote.inspection.lineage_walk import LineageWalk
from tidelog.remote.metadata.config import METADATA_TOPIC
from tidelog.remote.metadata.partitioning import metadata_partition
from tidelog.remote.metadata.record_codec import decode_event
from tidelog.remote.metadata.store import PartitionMetadataStore, partition_of
from tidelog.remote.ports.segment_metadata import TopicIdPartition
from tidelog.storage.leader_epoch import EpochEntry

_READERS: Final = 8
_log = logging.getLogger(__name__)
_T = TypeVar("_T")


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
        self._admin = admin
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
        described = await self._admin.describe_topics(sorted({name.topic for name in names}))
        partitions: dict[TopicPartition, TopicIdPartition] = {}
        epochs: dict[TopicPartition, LeaderEpoch] = {}
        for topic in described.values():
            if isinstance(topic, KafkaError):
                if topic.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise topic
                continue
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
        starts = await self._admin.list_offsets(dict.fromkeys(unknown, int(OffsetSpec.EARLIEST)))
        walks = {name: LineageWalk(epochs[name], _result(starts[name]).offset) for name in unknown}
        while requested := {
            name: walk.next_epoch for name, walk in walks.items() if walk.next_epoch is not None
        }:
            for name, end in (await self._admin.epoch_end_offsets(requested)).items():
                walks[name].add_response(*_result(end))
        for name, walk in walks.items():
            self._lineages[partitions[name]] = (epochs[name], walk.entries)

    # --- the metadata topic ---------------------------------------------------------------

    async def _follow(self, partitions: Collection[TopicIdPartition]) -> None:
        count = await self._metadata_partition_count()
        by_number: dict[int, set[TopicIdPartition]] = {}
        for partition in partitions:
            if not self._store.has(partition):
                self._store.open(partition)
                self._store.mark_ready(partition)
            if count:
                by_number.setdefault(metadata_partition(partition, count), set()).add(partition)
        for number, requested in by_number.items():
            read = self._read.setdefault(number, _MetadataPartition())
            if not requested <= read.partitions:
                self._read_again(read, requested)
        bounds = await self._bounds(by_number)
        slots = asyncio.Semaphore(_READERS)

        async def read_new(number: int, start: Offset, end: Offset) -> None:
            read = self._read[number]
            if not start <= read.next_offset <= end and read.next_offset:
                # It was truncated or re-created: the metadata may be obsolete.
                self._read_again(read, set())
            first = max(start, read.next_offset)
            if first < end:
                async with slots:
                    await self._read_records(number, first, end, read)
            read.next_offset = end

        # Waits for all tasks: one that continued would apply old events to the next attempt.
        try:
            async with asyncio.TaskGroup() as group:
                for number in by_number:
                    group.create_task(read_new(number, *bounds[number]))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    def _read_again(self, read: _MetadataPartition, also: set[TopicIdPartition]) -> None:
        """Read the metadata again from the start, for the partitions in `also` too."""
        read.next_offset = 0
        read.partitions |= also
        for partition in read.partitions:
            self._store.drop(partition)
            self._store.open(partition)
            self._store.mark_ready(partition)

    async def _metadata_partition_count(self) -> int:
        """Return the number of partitions of the metadata topic; 0 if it does not exist."""
        found = (await self._admin.describe_topics([METADATA_TOPIC]))[METADATA_TOPIC]
        if not isinstance(found, KafkaError):
            return len(found.partitions)
        if found.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return 0
        raise found

    async def _bounds(self, numbers: Collection[int]) -> dict[int, tuple[Offset, Offset]]:
        names = [TopicPartition(METADATA_TOPIC, number) for number in numbers]
        if not names:
            return {}
        starts = await self._admin.list_offsets(dict.fromkeys(names, int(OffsetSpec.EARLIEST)))
        ends = await self._admin.list_offsets(dict.fromkeys(names, int(OffsetSpec.LATEST)))
        return {name.partition: (_result(starts[name]).offset, _result(ends[name]).offset) for name in names}

    async def _read_records(self, number: int, start: Offset, end: Offset, into: _MetadataPartition) -> None:
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
                if partition_of(event) in into.partitions:
                    self._store.apply(event)


def _result(found: _T | KafkaError) -> _T:
    if isinstance(found, KafkaError):
        raise found
    return found
