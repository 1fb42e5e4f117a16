"""Requests to brokers for inspections and direct readers: topics, configs, offsets and leader epochs (shell).

Errors: KafkaError if the cluster, a topic or a leader does not respond.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar
from uuid import UUID

from tidelog.clients.admin.admin import (
    Admin,
    ConfigResource,
    ListedOffset,
    OffsetSpec,
    ResourceType,
    TopicDescription,
)
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import LeaderEpoch, Offset, TopicPartition
from tidelog.remote.inspection.lineage_walk import LineageWalk
from tidelog.remote.metadata.config import METADATA_TOPIC
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.config.topic_configs import log_config_from

OffsetsBySpec: TypeAlias = dict[int | None, Offset | None]
"""The offsets of a partition by the number in ListOffsets; None is the key of the last stable offset."""

_CONCURRENT_MAX: Final = 8
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

ResultT = TypeVar("ResultT")


class BrokerQueries:
    """Sends the requests of inspections and direct readers through `admin`."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    async def topic_names(self) -> list[str]:
        """Return the names of all topics except internal ones."""
        return list(await self._admin.list_topics())

    async def topic_ids(self) -> frozenset[UUID]:
        """Return the ids of all existing topics."""
        topics = await self._admin.list_topics(include_internal=True)
        return frozenset(topic.topic_id for topic in topics.values())

    async def topics(self, names: Collection[str]) -> list[TopicDescription]:
        """Return the descriptions of the topics `names`, all of which must exist."""
        descriptions = await self._admin.describe_topics(names)
        return [require_result(description) for description in descriptions.values()]

    async def existing_topics(self, names: Collection[str]) -> list[TopicDescription]:
        """Return the descriptions of those of the topics `names` that exist."""
        descriptions = []
        for description in (await self._admin.describe_topics(names)).values():
            if not isinstance(description, KafkaError):
                descriptions.append(description)
            elif description.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise description
        return descriptions

    async def metadata_partition_count(self) -> int:
        """Return the number of partitions of the metadata topic; 0 if it does not exist."""
        topics = await self.existing_topics([METADATA_TOPIC])
        return len(topics[0].partitions) if topics else 0

    async def log_configs(self, names: Iterable[str]) -> dict[str, LogConfig]:
        """Return the configs of topics that matter for remote storage, by name."""
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        if not resources:
            return {}
        configs = await self._admin.describe_configs(resources, keys=_CONFIGS)
        return {
            resource.name: log_config_from(
                {
                    key: entry.value
                    for key, entry in require_result(entries).items()
                    if entry.value is not None and key in _CONFIGS
                }
            )
            for resource, entries in configs.items()
        }

    async def list_offsets(
        self, partitions: Iterable[TopicPartition], spec: OffsetSpec, *, read_committed: bool = False
    ) -> dict[TopicPartition, ListedOffset]:
        """Return one offset of each partition."""
        offsets = await self._admin.list_offsets(
            dict.fromkeys(partitions, int(spec)), read_committed=read_committed
        )
        return {partition: require_result(offset) for partition, offset in offsets.items()}

    async def offsets_by_spec(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, OffsetsBySpec]:
        """Return the offsets of each partition; some are None if brokers do not support the request."""
        responses: dict[TopicPartition, OffsetsBySpec] = {partition: {} for partition in partitions}
        for spec in _SPECS:
            requested = dict.fromkeys(partitions, int(spec))
            is_optional = spec is OffsetSpec.EARLIEST_PENDING_UPLOAD
            try:
                offsets = await self._admin.list_offsets(requested)
            except KafkaError:
                if not is_optional:
                    raise
                continue  # brokers before KIP-1023
            for partition, offset in offsets.items():
                if isinstance(offset, KafkaError) and not is_optional:
                    raise offset
                responses[partition][spec] = None if isinstance(offset, KafkaError) else offset.offset
        last_stable_offsets = await self.list_offsets(partitions, OffsetSpec.LATEST, read_committed=True)
        for partition, last_stable in last_stable_offsets.items():
            responses[partition][None] = last_stable.offset
        return responses

    async def lineages(
        self, leader_epochs: Mapping[TopicPartition, LeaderEpoch], log_starts: Mapping[TopicPartition, Offset]
    ) -> dict[TopicPartition, LineageWalk]:
        """Return the leader epochs of the log of each partition in `log_starts`."""
        walks = {
            partition: LineageWalk(leader_epochs[partition], log_starts[partition])
            for partition in log_starts
        }
        while requested := {
            partition: walk.next_epoch for partition, walk in walks.items() if walk.next_epoch is not None
        }:
            for partition, end in (await self._admin.epoch_end_offsets(requested)).items():
                walks[partition].add_response(*require_result(end))
        return walks

    async def local_sizes(self, topics: Iterable[TopicDescription]) -> dict[TopicPartition, int]:
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
            log_dirs = await self._admin.describe_log_dirs(set(leaders.values()), partitions=leaders)
        except KafkaError:
            return {}
        return {
            partition: entry.size_bytes
            for broker_id, directories in log_dirs.items()
            if not isinstance(directories, KafkaError)
            for directory in directories.values()
            for partition, entry in directory.partitions.items()
            if leaders.get(partition) == broker_id and not entry.is_future
        }


async def run_concurrently(jobs: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """Run `jobs`, a few at a time, and wait for all of them; raise the first error."""
    slots = asyncio.Semaphore(_CONCURRENT_MAX)

    async def run_one(job: Callable[[], Awaitable[None]]) -> None:
        async with slots:
            await job()

    try:
        async with asyncio.TaskGroup() as group:
            for job in jobs:
                group.create_task(run_one(job))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None


def require_result(result: ResultT | KafkaError) -> ResultT:
    """Return `result`, or raise it if it is the error of one topic, partition or resource."""
    if isinstance(result, KafkaError):
        raise result
    return result
