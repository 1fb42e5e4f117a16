"""Data of brokers: offsets, epochs, configs, and the records of `__remote_log_metadata` (shell).

The order matters, because brokers continue to work: first the offsets, then the metadata to its end, then the
log start again. Therefore the copies of all records below the local start are in the metadata, and deletions
have moved the log start.

Errors: KafkaError if the cluster, a topic or a leader does not respond.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar
from uuid import UUID

from tidelog.base.clock import SystemClock
from tidelog.clients.admin.admin import (
    Admin,
    ConfigResource,
    ListedOffset,
    OffsetSpec,
    ResourceType,
    TopicDescription,
)
from tidelog.clients.consumer.partition_reader import PartitionReader
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import LeaderEpoch, Offset, TopicPartition
from tidelog.remote.inspection.history import MetadataHistory, RecordPlace
from tidelog.remote.inspection.lineage_walk import LineageWalk
from tidelog.remote.inspection.views import NOTHING, PartitionOffsets, PartitionView
from tidelog.remote.metadata.config import METADATA_TOPIC
from tidelog.remote.metadata.partitioning import metadata_partition
from tidelog.remote.ports.segment_metadata import TopicIdPartition
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.config.topic_configs import log_config_from

_READERS: Final = 8
_CONFIGS: Final = (
    "cleanup.policy",
    "local.retention.bytes",
    "local.retention.ms",
    "remote.copy.lag.bytes",
    "remote.copy.lag.ms",
    "remote.log.copy.disable",
    "remote.storage.enable",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.ms",
)
_SPECS: Final = (
    OffsetSpec.EARLIEST,
    OffsetSpec.EARLIEST_LOCAL,
    OffsetSpec.LATEST_TIERED,
    OffsetSpec.EARLIEST_PENDING_UPLOAD,
    OffsetSpec.LATEST,
)

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The views of the requested partitions, in order, and their metadata."""

    partitions: tuple[PartitionView, ...]
    history: MetadataHistory
    topic_ids: frozenset[UUID]
    """The ids of all existing topics."""
    now_ms: int


class Gatherer:
    """Sends requests to one cluster through `admin`, and reads its metadata topic with clients of its own.

    `options` are those of these clients, see `ConsumerConfig`.
    """

    def __init__(self, admin: Admin, bootstrap_servers: str, options: Mapping[str, Any]) -> None:
        self._admin = admin
        self._bootstrap_servers = bootstrap_servers
        self._options = options

    async def tiered_topics(self) -> list[str]:
        """Return the topics with remote.storage.enable, by name."""
        names = list(await self._admin.list_topics())
        configs = await self._configs(names)
        return [name for name in names if configs[name].remote_storage_enable]

    async def view(
        self, names: Sequence[str], numbers: Iterable[int] | None = None, *, whole_history: bool = False
    ) -> ClusterView:
        """Return the partitions of the topics `names`, of one topic those with `numbers`.

        With `whole_history`, read every metadata partition, else only those of these partitions.
        """
        topics = [_result(found) for found in (await self._admin.describe_topics(names)).values()]
        partitions = [
            TopicIdPartition(topic.topic_id, topic.name, entry.partition)
            for topic in topics
            for entry in topic.partitions
            if numbers is None or entry.partition in set(numbers)
        ]
        leader_epochs = {
            TopicPartition(topic.name, entry.partition): entry.leader_epoch
            for topic in topics
            for entry in topic.partitions
        }
        configs = await self._configs(names)
        offsets = await self._offsets([partition.topic_partition for partition in partitions])
        history = await self._history(partitions, whole_history)
        starts = await self._listed(offsets, OffsetSpec.EARLIEST)
        walks = await self._walks(leader_epochs, starts)
        sizes = await self._local_sizes(topics)
        now_ms = SystemClock().wall_ms()
        views = []
        for partition in partitions:
            name = partition.topic_partition
            walk = walks[name]
            partition_offsets = _offsets(offsets[name], walk, leader_epochs[name])
            view = PartitionView(
                partition=partition,
                offsets=partition_offsets,
                lineage=walk.entries,
                history=history.of(partition),
                config=configs[partition.topic],
                local_size_bytes=sizes.get(name),
                now_ms=now_ms,
            )
            views.append(view.with_log_start(starts[name].offset))
        return ClusterView(tuple(views), history, await self._topic_ids(), now_ms)

    # --- brokers --------------------------------------------------------------------------

    async def _topic_ids(self) -> frozenset[UUID]:
        return frozenset(
            topic.topic_id for topic in (await self._admin.list_topics(include_internal=True)).values()
        )

    async def _configs(self, names: Iterable[str]) -> dict[str, LogConfig]:
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        if not resources:
            return {}
        found = await self._admin.describe_configs(resources, keys=_CONFIGS)
        return {
            resource.name: log_config_from(
                {
                    key: entry.value
                    for key, entry in _result(entries).items()
                    if entry.value is not None and key in _CONFIGS
                }
            )
            for resource, entries in found.items()
        }

    async def _offsets(
        self, names: Sequence[TopicPartition]
    ) -> dict[TopicPartition, dict[int | None, Offset | None]]:
        """Return each leader's response by spec; None is the key of the last stable offset."""
        responses: dict[TopicPartition, dict[int | None, Offset | None]] = {name: {} for name in names}
        for spec in _SPECS:
            requested = dict.fromkeys(names, int(spec))
            is_optional = spec is OffsetSpec.EARLIEST_PENDING_UPLOAD
            try:
                found = await self._admin.list_offsets(requested)
            except KafkaError:
                if not is_optional:
                    raise
                continue  # brokers before KIP-1023
            for name, listed in found.items():
                if isinstance(listed, KafkaError) and not is_optional:
                    raise listed
                responses[name][spec] = None if isinstance(listed, KafkaError) else listed.offset
        latest = dict.fromkeys(names, int(OffsetSpec.LATEST))
        for name, listed in (await self._admin.list_offsets(latest, read_committed=True)).items():
            responses[name][None] = _result(listed).offset
        return responses

    async def _listed(
        self, names: Iterable[TopicPartition], spec: OffsetSpec
    ) -> dict[TopicPartition, ListedOffset]:
        found = await self._admin.list_offsets(dict.fromkeys(names, int(spec)))
        return {name: _result(listed) for name, listed in found.items()}

    async def _walks(
        self, leader_epochs: dict[TopicPartition, LeaderEpoch], starts: dict[TopicPartition, ListedOffset]
    ) -> dict[TopicPartition, LineageWalk]:
        walks = {name: LineageWalk(leader_epochs[name], start.offset) for name, start in starts.items()}
        while requested := {
            name: walk.next_epoch for name, walk in walks.items() if walk.next_epoch is not None
        }:
            for name, end in (await self._admin.epoch_end_offsets(requested)).items():
                walks[name].add_response(*_result(end))
        return walks

    async def _local_sizes(self, topics: Iterable[TopicDescription]) -> dict[TopicPartition, int]:
        """Return the bytes on the disks of leaders; partitions without a response are omitted."""
        leaders = {
            TopicPartition(topic.name, entry.partition): entry.leader
            for topic in topics
            for entry in topic.partitions
            if entry.leader >= 0
        }
        if not leaders:
            return {}
        try:
            found = await self._admin.describe_log_dirs(set(leaders.values()), partitions=leaders)
        except KafkaError:
            return {}
        return {
            name: entry.size_bytes
            for broker_id, directories in found.items()
            if not isinstance(directories, KafkaError)
            for directory in directories.values()
            for name, entry in directory.partitions.items()
            if leaders.get(name) == broker_id and not entry.is_future
        }

    # --- metadata -------------------------------------------------------------------------

    async def _history(self, partitions: Iterable[TopicIdPartition], whole: bool) -> MetadataHistory:
        found = (await self._admin.describe_topics([METADATA_TOPIC]))[METADATA_TOPIC]
        history = MetadataHistory()
        if isinstance(found, KafkaError):
            if found.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return history  # nothing was ever copied
            raise found
        count = len(found.partitions)
        numbers = (
            range(count) if whole else {metadata_partition(partition, count) for partition in partitions}
        )
        await _run_concurrently([partial(self._read, number, history) for number in sorted(numbers)])
        return history

    async def _read(self, number: int, history: MetadataHistory) -> None:
        name = TopicPartition(METADATA_TOPIC, number)
        async with PartitionReader(self._bootstrap_servers, name, **self._options) as reader:
            start, _ = await reader.range()
            if start > 0:
                history.truncated[number] = start
            async for record in reader.records():
                history.record(RecordPlace(number, record.offset), record.value)


def _offsets(
    responses: dict[int | None, Offset | None], walk: LineageWalk, leader_epoch: LeaderEpoch
) -> PartitionOffsets:
    def value(spec: int | None, otherwise: Offset = NOTHING) -> Offset:
        offset = responses.get(spec)
        return otherwise if offset is None or offset < 0 else offset

    start, high_watermark = value(OffsetSpec.EARLIEST, 0), value(OffsetSpec.LATEST, 0)
    pending = value(OffsetSpec.EARLIEST_PENDING_UPLOAD)
    return PartitionOffsets(
        log_start_offset=start,
        local_log_start_offset=max(start, value(OffsetSpec.EARLIEST_LOCAL, start)),
        highest_offset_in_remote_storage=value(OffsetSpec.LATEST_TIERED),
        earliest_pending_upload_offset=None if pending < 0 else pending,
        last_stable_offset=value(None, high_watermark),
        high_watermark=high_watermark,
        log_end_offset=max(high_watermark, walk.log_end_offset or 0),
        leader_epoch=leader_epoch,
    )


async def _run_concurrently(jobs: Iterable[Callable[[], Awaitable[None]]]) -> None:
    slots = asyncio.Semaphore(_READERS)

    async def run_one(work: Callable[[], Awaitable[None]]) -> None:
        async with slots:
            await work()

    try:
        async with asyncio.TaskGroup() as group:
            for work in jobs:
                group.create_task(run_one(work))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None


def _result(found: _T | KafkaError) -> _T:
    if isinstance(found, KafkaError):
        raise found
    return found
