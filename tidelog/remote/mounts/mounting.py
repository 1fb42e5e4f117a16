"""Mounts a planned topic in a cluster, and unmounts it (shell).

A mounted topic is created with the config `tidelog.source`, in recovery state: its leaders list the source,
register its segments, and follow it. A repeated command finds the topic and waits for the leaders.

Errors: KafkaError; MountError for a topic that cannot be mounted.
"""

from __future__ import annotations

import asyncio
from typing import Final

from tidelog.base.dataclass import dataclass
from tidelog.base.randomness import SYSTEM_RANDOMNESS, new_uuid
from tidelog.clients.admin.admin import Admin, ConfigResource, OffsetSpec, ResourceType
from tidelog.clients.admin.types import NewTopic
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.remote.restore.plan import SAFE_CONFIGS, TopicPlan
from tidelog.remote.restore.references import foreign_brokers
from tidelog.storage.config.restored_topic import RestoredTopic
from tidelog.storage.config.topic_source import SOURCE_KEY, TopicSource

MOUNT_EPOCH_MARGIN: Final = 1_000_000
"""The leader epoch of a mounted topic is so far above those of its source, which continue to rise."""

_CHECK_S: Final = 0.2


class MountError(Exception):
    """A topic cannot be mounted or unmounted; the text is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMount:
    """A topic to mount: `plan` is what the source has now, under the source's own name."""

    admin: Admin
    name: str
    source: TopicSource
    plan: TopicPlan
    replication_factor: int = -1
    wait_s: float = 300.0

    async def check(self) -> None:
        """Check whether the cluster can mount the topic. Errors: MountError."""
        if self.plan.problems:
            raise MountError(self.plan.problems[0])
        if await self._is_mounted():
            return
        if text := await foreign_brokers(self.admin):
            raise MountError(f"{self.name}: {text}")
        await self._create(validate_only=True)

    async def run(self) -> dict[TopicPartition, Offset]:
        """Mount the topic, and wait until its leaders have what the source has; return their ends."""
        await self.check()
        if not await self._is_mounted():
            await self._create(validate_only=False)
        ends = {
            TopicPartition(self.name, each.partition.partition): each.end_offset
            for each in self.plan.partitions
        }
        try:
            async with asyncio.timeout(self.wait_s):
                return await self._wait_for(ends)
        except TimeoutError:
            raise MountError(
                f"{self.name}: not every leader has followed its source within {self.wait_s:g} s; the topic "
                "is mounted, the logs of the brokers have the reason"
            ) from None

    async def _is_mounted(self) -> bool:
        mounted = await source_of_topic(self.admin, self.name)
        if mounted is not None and mounted != self.source:
            raise MountError(f"{self.name}: the cluster has a topic of this name: {mounted.text}")
        return mounted is not None

    async def _create(self, *, validate_only: bool) -> None:
        identity = RestoredTopic(
            topic_id=new_uuid(SYSTEM_RANDOMNESS),
            leader_epoch=self.plan.leader_epoch + MOUNT_EPOCH_MARGIN,
            next_producer_id=0,
        )
        topic = NewTopic(
            name=self.name,
            num_partitions=len(self.plan.partitions),
            replication_factor=self.replication_factor,
            configs={**SAFE_CONFIGS, SOURCE_KEY: self.source.text, **identity.configs},
        )
        created = (await self.admin.create_topics([topic], validate_only=validate_only))[self.name]
        if isinstance(created, KafkaError):
            if created.code is ErrorCode.TOPIC_ALREADY_EXISTS and await self._is_mounted():
                return  # the response to an earlier attempt was lost
            raise MountError(f"{self.name}: {created}")

    async def _wait_for(self, expected: dict[TopicPartition, Offset]) -> dict[TopicPartition, Offset]:
        ends: dict[TopicPartition, Offset] = {}
        while expected.keys() - ends.keys():
            listed = await self.admin.list_offsets(dict.fromkeys(expected, int(OffsetSpec.LATEST)))
            for name, one in listed.items():
                if isinstance(one, KafkaError):
                    if not one.code.retriable:
                        raise one
                elif one.offset >= expected[name]:
                    ends[name] = one.offset
            if expected.keys() - ends.keys():
                await asyncio.sleep(_CHECK_S)
        return ends


async def source_of_topic(admin: Admin, name: str) -> TopicSource | None:
    """Return the source of a topic; None if the topic does not exist. Errors: MountError if it has none."""
    resource = ConfigResource(ResourceType.TOPIC, name)
    entries = (await admin.describe_configs([resource], keys=(SOURCE_KEY,)))[resource]
    if isinstance(entries, KafkaError):
        if entries.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return None
        raise entries
    entry = entries.get(SOURCE_KEY)
    if entry is None or entry.value is None:
        raise MountError(f"{name}: the cluster has a topic of this name, which is not mounted")
    return TopicSource.parse(entry.value)


async def unmount(admin: Admin, name: str) -> None:
    """Delete a mounted topic; the objects of its source are kept. Errors: MountError; KafkaError."""
    source = await source_of_topic(admin, name)
    if source is None:
        raise MountError(f"{name}: the cluster has no topic of this name")
    if source.mount is None:
        raise MountError(f"{name}: it is not mounted, and has records of its own; use tidelog topic delete")
    result = (await admin.delete_topics([name]))[name]
    if isinstance(result, KafkaError):
        raise result
