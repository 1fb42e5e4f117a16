"""The logs of the partitions that are assigned to this node: found, or planned for creation by the queue.

One request can create 10,000 partitions. The logs of partitions that are new in the metadata are therefore
planned when the queue requests them, a few at a time. The states of a partition whose log does not exist yet:

    unplanned   added by a metadata update             -> pending, or deleted before its turn
    pending     its creation is queued or running      -> created or failed, see `end_creation`

Bounds: one entry for each partition without a log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple
from uuid import UUID

from tidelog.broker.partitions.log_retirements import LogRetirements
from tidelog.broker.partitions.log_work import LogWork
from tidelog.cluster.image import NO_LEADER, PartitionImage, TopicImage
from tidelog.protocol.ids import BrokerId, TopicPartition
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.directories.directory_work import LogCreation
from tidelog.storage.directories.log_directory import Retirement
from tidelog.storage.directories.log_manager import LogManager
from tidelog.storage.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)


class NewPartitions(NamedTuple):
    """The partitions of a topic that one metadata update has added."""

    topic: TopicImage
    indexes: Sequence[int]


class PlanningPorts(NamedTuple):
    """What the plans of new logs use of the ReplicaManager.

    `topic` returns a topic in the current metadata, None if it was deleted; `log_config` the configs of a
    topic. `follow` returns the creation of the log of a partition; None if the log exists, and the partition
    has got its role.
    """

    topic: Callable[[UUID], TopicImage | None]
    log_config: Callable[[str], LogConfig]
    follow: Callable[[TopicImage, int, Callable[[str], LogConfig], int], LogCreation | None]


class LogPlanning:
    """Finds the log of each assigned partition, or plans its creation; plans the retirement of logs."""

    def __init__(self, node_id: BrokerId, logs: LogManager, log_work: LogWork) -> None:
        self._node_id = node_id
        self._logs = logs
        self._log_work = log_work
        self._retirements = LogRetirements(logs, log_work)
        self._pending: set[TopicPartition] = set()
        self._unplanned: dict[UUID, set[int]] = {}

    # Retirements

    def retire(self, topic_partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """Retire the logs of removed partitions, in this and later turns of the event loop."""
        self._retirements.add(topic_partitions, now_ms)

    def retire_earlier_log(self, topic_partition: TopicPartition, now_ms: int) -> None:
        """Queue the retirement of the log of an earlier partition of this name, if it is not planned yet."""
        self._retirements.submit(topic_partition, now_ms)

    # Creations

    def is_pending(self, topic_partition: TopicPartition) -> bool:
        """Return whether the log of a partition is being created."""
        return topic_partition in self._pending

    def unplanned(self, topic_id: UUID) -> Container[int]:
        """Return the indexes of the partitions of a topic whose logs are not planned yet."""
        return self._unplanned.get(topic_id, ())

    def add_new(self, topic: TopicImage, indexes: Sequence[int]) -> NewPartitions:
        """Leave the logs of new partitions to `submit_new`."""
        self._unplanned.setdefault(topic.id, set()).update(indexes)
        return NewPartitions(topic, indexes)

    def find_or_plan(
        self,
        topic_partition: TopicPartition,
        topic: TopicImage,
        config: LogConfig,
        now_ms: int,
        *,
        is_new: bool,
    ) -> PartitionLog | LogCreation:
        """Return the log of a partition, or its creation, which is pending until `end_creation`."""
        self._quarantine_if_damaged(topic_partition, topic.partitions[topic_partition.partition], now_ms)
        log = self._logs.find(topic_partition, topic.id, config, now_ms)
        if log is not None:
            return log
        creation = self._logs.planned_creation(topic_partition, topic.id, config, now_ms, is_new=is_new)
        self._pending.add(topic_partition)
        return creation

    def submit(self, creations: Sequence[LogCreation]) -> None:
        """Queue creations of logs."""
        self._log_work.submit(creations)

    def submit_new(self, topics: Sequence[NewPartitions], ports: PlanningPorts, now_ms: int) -> None:
        """Queue the logs of new partitions; each is planned when its turn comes, if it is still assigned."""
        self._log_work.submit_plans(self._plans(topics, ports, now_ms))

    def _plans(
        self, topics: Iterable[NewPartitions], ports: PlanningPorts, now_ms: int
    ) -> Iterator[LogCreation | Retirement]:
        for topic, indexes in topics:
            config = cache(ports.log_config)
            for index in indexes:
                current = ports.topic(topic.id)
                if current is None:
                    break
                self._unplanned[topic.id].discard(index)
                yield from self._retirements.plan(TopicPartition(topic.name, index), now_ms)
                creation = ports.follow(current, index, config, now_ms)
                if creation is not None:
                    yield creation
            # Another iterator may plan further partitions of this topic, or may have removed its entry.
            if not self._unplanned.get(topic.id) or ports.topic(topic.id) is None:
                self._unplanned.pop(topic.id, None)

    def end_creation(self, creation: LogCreation) -> None:
        """Note that a log was created, or that its creation failed."""
        self._pending.discard(creation.topic_partition)

    def _quarantine_if_damaged(
        self, topic_partition: TopicPartition, partition_image: PartitionImage, now_ms: int
    ) -> None:
        """Quarantine a damaged log that another replica can replace; it is fetched from the leader again.

        The log is kept while this node is the leader, in the ISR or an eligible leader replica.
        """
        owners = (partition_image.leader, *partition_image.isr, *partition_image.eligible_leader_replicas)
        if partition_image.leader == NO_LEADER or self._node_id in owners:
            return
        if self._logs.retire_damaged(topic_partition, now_ms):
            logger.warning(
                "Quarantining the damaged log of partition %s; fetching it again from broker %d",
                topic_partition,
                partition_image.leader,
            )
