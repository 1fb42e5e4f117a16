"""Telling the controller in which log directory each replica of this node is (KIP-858).

The controller must know, to elect other leaders when one of several disks fails. With one directory it
knows by itself; with more the node chooses, and says so here whenever the metadata has it differently.

Bounds: one entry per partition, `ASSIGNMENTS_MAX` in one request.
I/O: one task on the event loop while there is something to tell.
Source: AssignmentsManager of Apache Kafka 4.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Final, Protocol
from uuid import UUID

from tidelog.base.clock import Clock
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.partitions.role_changes import RoleChanges
from tidelog.clients.transport.failures import failure, known_code
from tidelog.cluster.image import MetadataImage
from tidelog.cluster.replica_directories import LOST
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import BrokerId, TopicPartition
from tidelog.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)
from tidelog.storage.disk.files import parent_directory

logger = logging.getLogger(__name__)

ASSIGNMENTS_MAX: Final = 2_250
REQUEST_TIMEOUT_MS: Final = 30_000
RETRY_PAUSE_MS: Final = 500


class Channel(Protocol):
    """How requests reach the active controller; `ControllerChannel` is one."""

    async def request(
        self,
        message: AssignReplicasToDirsRequest,
        response: type[AssignReplicasToDirsResponse],
        /,
        *,
        deadline: int,
    ) -> AssignReplicasToDirsResponse: ...


class DirectoryAssignments:
    """A listener of the ReplicaManager; `directory_ids` are the ids of the log directories by path."""

    def __init__(
        self,
        channel: Channel,
        broker_id: BrokerId,
        broker_epoch: Callable[[], int],
        directory_ids: Mapping[str, UUID],
        clock: Clock,
    ) -> None:
        self._channel = channel
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._directory_ids = directory_ids
        self._clock = clock
        self._untold: dict[tuple[UUID, int], UUID] = {}
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def on_roles_changed(self, changes: RoleChanges, image: MetadataImage) -> None:
        """Look at the partitions whose role began or changed, and at those that cannot be used here."""
        self._note_lost(changes.failed, image)
        self.check((*changes.leaders, *changes.followers), image)

    def check(self, partitions: Iterable[Partition], image: MetadataImage) -> None:
        """Tell of those that are in another directory than the metadata says."""
        for partition in partitions:
            topic = image.topics_by_id.get(partition.topic_id)
            directory = self._directory_ids.get(parent_directory(partition.log.directory))
            if topic is None or directory is None:
                continue
            index = partition.topic_partition.partition
            placed = topic.partitions.get(index)
            if placed is not None and placed.directory_of(self._broker_id) != directory:
                self._untold[partition.topic_id, index] = directory
            else:
                self._untold.pop((partition.topic_id, index), None)
        if self._untold and self._task is None and not self._closed:
            self._task = asyncio.get_running_loop().create_task(self._tell_all(), name="directories")

    def _note_lost(self, refused: Iterable[TopicPartition], image: MetadataImage) -> None:
        """Of one whose disk failed before the controller knew of it: nobody else would be elected."""
        for topic_partition in refused:
            topic = image.topics_by_name.get(topic_partition.topic)
            placed = None if topic is None else topic.partitions.get(topic_partition.partition)
            if topic is None or placed is None or self._broker_id not in placed.replicas:
                continue
            if placed.directory_of(self._broker_id) is None:
                self._untold[topic.id, topic_partition.partition] = LOST

    async def close(self) -> None:
        """Tell nothing any more."""
        self._closed = True
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _tell_all(self) -> None:
        try:
            while self._untold:
                told = dict(islice(self._untold.items(), ASSIGNMENTS_MAX))
                try:
                    response = await self._channel.request(
                        self._request(told),
                        AssignReplicasToDirsResponse,
                        deadline=self._clock.monotonic_ms() + REQUEST_TIMEOUT_MS,
                    )
                    if response.error_code:
                        raise failure(response.error_code, "AssignReplicasToDirs was refused")
                except (KafkaError, OSError) as error:
                    logger.info("directories of %d replicas will be told again: %s", len(told), error)
                    await asyncio.sleep(RETRY_PAUSE_MS / 1000)
                except Exception:
                    # Nobody else would tell of them before their roles change.
                    logger.exception("directories of %d replicas will be told again", len(told))
                    await asyncio.sleep(RETRY_PAUSE_MS / 1000)
                else:
                    self._answered(told, response)
        finally:
            self._task = None

    def _request(self, told: Mapping[tuple[UUID, int], UUID]) -> AssignReplicasToDirsRequest:
        by_directory: dict[UUID, dict[UUID, list[RequestPartitionData]]] = {}
        for (topic_id, index), directory in told.items():
            topics = by_directory.setdefault(directory, {})
            topics.setdefault(topic_id, []).append(RequestPartitionData(partition_index=index))
        return AssignReplicasToDirsRequest(
            broker_id=self._broker_id,
            broker_epoch=self._broker_epoch(),
            directories=tuple(
                RequestDirectoryData(
                    id=directory,
                    topics=tuple(
                        RequestTopicData(topic_id=topic_id, partitions=tuple(partitions))
                        for topic_id, partitions in topics.items()
                    ),
                )
                for directory, topics in by_directory.items()
            ),
        )

    def _answered(
        self, told: Mapping[tuple[UUID, int], UUID], response: AssignReplicasToDirsResponse
    ) -> None:
        """A replica that the controller refuses is told of again when the metadata changes it."""
        for key, directory in told.items():
            if self._untold.get(key) == directory:
                del self._untold[key]
        for answered in response.directories:
            for topic in answered.topics:
                for partition in topic.partitions:
                    if partition.error_code:
                        logger.warning(
                            "the directory of partition %d of %s was refused: %s",
                            partition.partition_index,
                            topic.topic_id,
                            known_code(partition.error_code).name,
                        )
