"""Reports to the controller in which log directory each replica of this node is stored (KIP-858).

The controller needs this to elect other leaders when one of several disks fails. A node with several
directories selects one for each replica, and reports each selection that differs from the metadata. A replica
that is moved to another directory is reported there before its files are replaced.

Bounds: one entry per partition, `ASSIGNMENTS_MAX` in one request.
I/O: one task on the event loop while there are assignments to report.
Source: AssignmentsManager of Apache Kafka 4.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Final
from uuid import UUID

from tidelog.base.clock import Clock
from tidelog.broker.channels.controller_requests import ControllerRequests
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.partitions.role_changes import RoleChanges
from tidelog.clients.transport.failures import failure, known_code
from tidelog.cluster.features import supports_directories
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


class DirectoryAssignments:
    """Reports the directories of replicas; a listener of role changes.

    `directory_ids` has the ids of the log directories by path.
    """

    def __init__(
        self,
        channel: ControllerRequests,
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
        self._unreported: dict[tuple[UUID, int], UUID] = {}
        self._targets: dict[tuple[UUID, int], UUID] = {}
        """The directories to which replicas are being moved, which the metadata is to have already."""
        self._in_flight: Mapping[tuple[UUID, int], UUID] = {}
        """What the request that waits for its response reports."""
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    def on_roles_changed(self, changes: RoleChanges, image: MetadataImage) -> None:
        """Check the partitions with a new role, and those that have failed."""
        if not supports_directories(image):
            return
        self._add_lost(changes.failed, image)
        self.check((*changes.leaders, *changes.followers), image)

    def check(self, partitions: Iterable[Partition], image: MetadataImage) -> None:
        """Report the partitions whose directory differs from the metadata, if it has directories."""
        if not supports_directories(image):
            return
        for partition in partitions:
            topic = image.topics_by_id.get(partition.topic_id)
            index = partition.topic_partition.partition
            directory = self._targets.get((partition.topic_id, index))
            if directory is None:
                directory = self._directory_ids.get(parent_directory(partition.log.directory))
            if topic is None or directory is None:
                continue
            partition_image = topic.partitions.get(index)
            if partition_image is not None and partition_image.directory_of(self._broker_id) != directory:
                self._unreported[partition.topic_id, index] = directory
            elif self._in_flight.get((partition.topic_id, index), directory) == directory:
                self._unreported.pop((partition.topic_id, index), None)
        self._start()

    def assign(self, topic_id: UUID, index: int, target: UUID) -> None:
        """Report that a replica is in the directory `target`, before it is moved there.

        If the disk of the current directory fails, the controller must be notified with `withdraw`.
        """
        self._targets[topic_id, index] = self._unreported[topic_id, index] = target
        self._start()

    def complete(self, topic_id: UUID, index: int) -> None:
        """Record that a replica is in the directory that was assigned."""
        self._targets.pop((topic_id, index), None)

    def withdraw(self, topic_id: UUID, index: int, current: UUID | None) -> None:
        """Report that a replica remains in the directory `current`, if another one was assigned."""
        if self._targets.pop((topic_id, index), None) is not None and current is not None:
            self._unreported[topic_id, index] = current
            self._start()

    def _start(self) -> None:
        if self._unreported and self._task is None and not self._is_closed:
            self._task = asyncio.get_running_loop().create_task(self._report_all(), name="directories")

    def _add_lost(self, failed: Iterable[TopicPartition], image: MetadataImage) -> None:
        """Add failed partitions whose directory the controller does not know.

        Otherwise the controller would not elect other leaders for them.
        """
        for topic_partition in failed:
            topic = image.topics_by_name.get(topic_partition.topic)
            partition_image = None if topic is None else topic.partitions.get(topic_partition.partition)
            if topic is None or partition_image is None or self._broker_id not in partition_image.replicas:
                continue
            if partition_image.directory_of(self._broker_id) is None:
                self._unreported[topic.id, topic_partition.partition] = LOST

    async def close(self) -> None:
        """Stop reporting."""
        self._is_closed = True
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _report_all(self) -> None:
        try:
            while self._unreported:
                self._in_flight = sent = dict(islice(self._unreported.items(), ASSIGNMENTS_MAX))
                try:
                    response = await self._channel.request(
                        self._request(sent),
                        AssignReplicasToDirsResponse,
                        deadline=self._clock.monotonic_ms() + REQUEST_TIMEOUT_MS,
                    )
                    if response.error_code:
                        raise failure(response.error_code, "AssignReplicasToDirs failed")
                except (KafkaError, OSError) as error:
                    logger.info(
                        "Cannot report the directories of %d replicas: %s; retrying in %d ms",
                        len(sent),
                        error,
                        RETRY_PAUSE_MS,
                    )
                    await asyncio.sleep(RETRY_PAUSE_MS / 1000)
                except Exception:
                    # Retried, because otherwise they are not reported before their roles change.
                    logger.exception(
                        "Cannot report the directories of %d replicas; retrying in %d ms",
                        len(sent),
                        RETRY_PAUSE_MS,
                    )
                    await asyncio.sleep(RETRY_PAUSE_MS / 1000)
                else:
                    self._on_response(sent, response)
        finally:
            self._in_flight = {}
            self._task = None

    def _request(self, sent: Mapping[tuple[UUID, int], UUID]) -> AssignReplicasToDirsRequest:
        """Return the request that reports the directories in `sent`, by topic id and partition."""
        by_directory: dict[UUID, dict[UUID, list[RequestPartitionData]]] = {}
        for (topic_id, index), directory in sent.items():
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

    def _on_response(
        self, sent: Mapping[tuple[UUID, int], UUID], response: AssignReplicasToDirsResponse
    ) -> None:
        """Remove the reported replicas; a rejected one is reported again when its metadata changes."""
        for key, directory in sent.items():
            if self._unreported.get(key) == directory:
                del self._unreported[key]
        for each in response.directories:
            for topic in each.topics:
                for partition in topic.partitions:
                    if partition.error_code:
                        logger.warning(
                            "The controller rejected the directory of partition %d of topic id %s: %s",
                            partition.partition_index,
                            topic.topic_id,
                            known_code(partition.error_code).name,
                        )
