"""The partitions of this node: opens, closes and looks them up according to the metadata.

`apply` applies a metadata update. It opens the log of every partition that is assigned to this node, makes
the partition leader or follower, and removes partitions that were deleted or reassigned. Requests look up a
partition. They get the partition, or an error code with the reason why it cannot be used.

A thread creates the logs of new partitions and retires those of deleted ones (`LogPlanning`). Requests for a
partition whose log does not exist yet get NOT_LEADER_OR_FOLLOWER. When its log has been created, the
partition gets its role in the current metadata (`RoleAssignment`):

    assigned -> log being created -> created, still assigned -> leader or follower
                                  -> created, but deleted or reassigned in the meantime -> removed; the log of
                                     a newer topic of the same name is created
                                  -> failed -> KAFKA_STORAGE_ERROR

One update can change the roles of 10,000 partitions. They change in several turns of the event loop
(`ChangedPartitions`).

I/O: opens and renames log directories through the LogManager. Errors: KafkaError.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import cache
from typing import cast
from uuid import UUID

from tidelog.broker.partitions.changed_partitions import ROLES_PER_TURN, ChangedPartitions
from tidelog.broker.partitions.leadership import Leadership
from tidelog.broker.partitions.log_planning import LogPlanning, NewPartitions, PlanningPorts
from tidelog.broker.partitions.log_work import LogWork
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.partitions.role_assignment import RoleAssignment
from tidelog.broker.partitions.role_changes import RoleChanges, RoleListener
from tidelog.broker.partitions.topic_log_configs import TopicLogConfigs
from tidelog.cluster.delta import MetadataDelta
from tidelog.cluster.image import (
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
)
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, Offset, TopicPartition
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.directories.directory_work import LogCreation
from tidelog.storage.directories.log_directory import Retirement
from tidelog.storage.directories.log_manager import LogManager
from tidelog.storage.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)


class ReplicaManager:
    """All partitions of this node, by topic name and by topic id."""

    def __init__(
        self,
        node_id: BrokerId,
        logs: LogManager,
        topic_defaults: Mapping[str, str],
        leadership: Leadership,
        log_work: LogWork,
    ) -> None:
        """`log_work` reports its outcomes to `on_log_work_done`."""
        self.node_id = node_id
        self.logs = logs
        self.partitions: dict[TopicPartition, Partition] = {}
        self.leadership = leadership
        self._listeners: list[RoleListener] = []
        self._log_work = log_work
        self._planning = LogPlanning(node_id, logs, log_work)
        self._planning_ports = PlanningPorts(self._topic_by_id, self._current_log_config, self._follow_new)
        self._roles = RoleAssignment(node_id)
        self._changed = ChangedPartitions()
        self._follows_later = False
        """Whether a later turn of the event loop gives the remaining changed partitions their roles."""
        self._by_name_and_index = cast(dict[tuple[str, int], Partition], self.partitions)
        self._configs = TopicLogConfigs(topic_defaults)
        self._topic_names: dict[UUID, str] = {}
        self._unavailable: dict[TopicPartition, KafkaError] = {}
        self._image: MetadataImage | None = None

    def add_listener(self, listener: RoleListener) -> None:
        """Notify `listener` of further changes of roles, after the listeners that were added before."""
        self._listeners.append(listener)

    # ---- look-ups

    def partition(self, topic_partition: TopicPartition) -> Partition:
        """Return the partition, whatever its role on this node.

        Errors: KAFKA_STORAGE_ERROR, NOT_LEADER_OR_FOLLOWER if it is assigned to other nodes,
        UNKNOWN_TOPIC_OR_PARTITION.
        """
        partition = self.partitions.get(topic_partition)
        if partition is None:
            raise self._unavailable.get(topic_partition) or self._missing_partition_error(topic_partition)
        return partition

    def _missing_partition_error(self, topic_partition: TopicPartition) -> KafkaError:
        topic = None if self._image is None else self._image.topics_by_name.get(topic_partition.topic)
        if topic is not None and topic_partition.partition in topic.partitions:
            # The partition may have been on this node before; the client then refreshes its metadata.
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        else:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return KafkaError(code, f"{topic_partition} is not on node {self.node_id}")

    def topic_name(self, topic_id: UUID) -> str | None:
        """Return the name of the topic with this id; None if the id is unknown."""
        name = self._topic_names.get(topic_id)
        if name is None and self._image is not None:
            topic = self._image.topics_by_id.get(topic_id)
            return None if topic is None else topic.name
        return name

    def high_watermark(self, partition: TopicPartition) -> Offset | None:
        """Return the high watermark of the local replica; None if this node has none."""
        replica = self.partitions.get(partition)
        return None if replica is None else replica.log.high_watermark

    def resolve(self, topic: str | None, topic_id: UUID | None, index: int) -> TopicPartition:
        """Return the partition that a request names by topic name or, in newer versions, by topic id.

        Errors: UNKNOWN_TOPIC_ID.
        """
        if topic is not None:
            return TopicPartition(topic, index)
        assert topic_id is not None
        name = self.topic_name(topic_id)
        if name is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {topic_id}")
        return TopicPartition(name, index)

    def find(self, topic: str | None, topic_id: UUID | None, index: int) -> Partition:
        """Return the partition that a request names.

        Errors: those of `resolve` and `partition`.
        """
        name = topic if topic is not None or topic_id is None else self._topic_names.get(topic_id)
        if name is not None:
            # A tuple equals a TopicPartition with the same values, and saves 0.3 us per request.
            partition = self._by_name_and_index.get((name, index))
            if partition is not None:
                return partition
        return self.partition(self.resolve(topic, topic_id, index))

    def has(self, topic: str | None, topic_id: UUID | None, index: int) -> bool:
        """Return whether the partition that a request names is on this node."""
        name = topic if topic_id is None else self.topic_name(topic_id)
        return (name, index) in self._by_name_and_index

    @property
    def awaiting_recovery(self) -> Set[TopicPartition]:
        """The partitions that this node leads after their logs have been recovered from remote storage."""
        return self._roles.awaiting_recovery

    @property
    def unavailable_count(self) -> int:
        """The number of partitions that are assigned to this node and cannot be used."""
        return len(self._unavailable)

    def partitions_of_topic(self, topic: str) -> Iterable[Partition]:
        """Return the partitions of one topic that are on this node."""
        topic_image = None if self._image is None else self._image.topics_by_name.get(topic)
        if topic_image is None:
            return [partition for key, partition in self.partitions.items() if key.topic == topic]
        by_name_and_index = self._by_name_and_index
        return [
            local_partition
            for index in topic_image.partitions
            if (local_partition := by_name_and_index.get((topic, index))) is not None
        ]

    # ---- following the metadata

    def apply(self, delta: MetadataDelta, image: MetadataImage, now_ms: int) -> None:
        """Apply one metadata update: open and remove partitions, and change their roles and configs.

        If it changes many partitions, some of them get their roles in later turns of the event loop.
        """
        self._image = image
        changes, removed = RoleChanges(), list[TopicPartition]()
        for deleted_topic in delta.deleted_topics:
            self._topic_names.pop(deleted_topic.id, None)
            removed += (TopicPartition(deleted_topic.name, index) for index in deleted_topic.partitions)
        for name in delta.changed_topics:
            topic = image.topics_by_name.get(name)
            if topic is not None:
                removed += self._reassigned_partitions(topic)
        # Removed first, so that a new topic of the same name does not find the old partitions.
        changes.remove(removed)
        self._remove(changes.removed, now_ms)
        new_partitions: list[NewPartitions] = []
        for name in delta.changed_topics:
            topic = image.topics_by_name.get(name)
            if topic is not None:
                partitions = self._add_changed(topic, delta.base)
                if partitions is not None:
                    new_partitions.append(partitions)
        if new_partitions:
            self._planning.submit_new(new_partitions, self._planning_ports, now_ms)
        for resource_type, name in delta.changed_configs:
            if resource_type == ResourceType.TOPIC:
                self._configs.apply_to(self.partitions_of_topic(name), image)
        # At the start of the node no request is served yet, and other parts need all partitions.
        at_once = ROLES_PER_TURN if delta.base.offset >= 0 else len(self._changed)
        self._follow_changed(changes, now_ms, at_once)

    def _notify(self, changes: RoleChanges, image: MetadataImage) -> None:
        """Notify the listeners, then complete the requests that wait for one of these partitions."""
        self._notify_listeners(changes, image)
        current = (one.topic_partition for one in (*changes.leaders, *changes.followers))
        self.leadership.complete_all_waiting_requests([*changes.removed, *current])

    def _notify_listeners(self, changes: RoleChanges, image: MetadataImage) -> None:
        for listener in self._listeners:
            try:
                listener.on_roles_changed(changes, image)
            except Exception:
                logger.exception(
                    "A listener failed to apply the role changes of metadata offset %d", image.offset
                )

    def _reassigned_partitions(self, topic: TopicImage) -> list[TopicPartition]:
        """Return the partitions of a topic that were reassigned to other nodes."""
        local_partitions = (self.partitions, self._unavailable)
        return [
            key
            for index, partition_image in topic.partitions.items()
            if self.node_id not in partition_image.replicas
            and any(
                (key := TopicPartition(topic.name, index)) in partitions for partitions in local_partitions
            )
        ]

    def _remove(self, topic_partitions: list[TopicPartition], now_ms: int) -> None:
        """End the roles of partitions that left this node, and retire their logs."""
        for topic_partition in topic_partitions:
            partition = self.partitions.pop(topic_partition, None)
            if partition is not None:
                partition.end_role()
        if self._unavailable:
            for topic_partition in topic_partitions:
                self._unavailable.pop(topic_partition, None)
        self._roles.forget(topic_partitions)
        self._planning.retire(topic_partitions, now_ms)

    def _add_changed(self, topic: TopicImage, before: MetadataImage) -> NewPartitions | None:
        """Add the partitions of a topic that have changed since `before` to those that get roles.

        Return the partitions whose logs must be planned later; None if there are none.
        """
        self._topic_names[topic.id] = topic.name
        topic_before = before.topics_by_id.get(topic.id)
        partitions_before: Mapping[int, PartitionImage] = (
            {} if topic_before is None else topic_before.partitions
        )
        # A partition that existed when the node started may have its log in an offline directory.
        can_be_new = before.offset >= 0
        new: NewPartitions | None = None
        if can_be_new and len(topic.partitions) > len(partitions_before):
            indexes = [index for index in topic.partitions if index not in partitions_before]
            new = self._planning.add_new(topic, indexes)
            if topic_before is None:
                return new
        unplanned = self._planning.unplanned(topic.id)
        for index, partition_image in topic.partitions.items():
            previous_image = partitions_before.get(index)
            if (topic.name, index) in self._by_name_and_index:
                if previous_image is partition_image:
                    continue
            elif index in unplanned or self.node_id not in partition_image.replicas:
                continue
            is_new = can_be_new and (previous_image is None or self.node_id not in previous_image.replicas)
            self._changed.add(topic.id, index, is_new=is_new)
        return new

    def _follow_changed(self, changes: RoleChanges, now_ms: int, count: int = ROLES_PER_TURN) -> None:
        """Give `count` changed partitions their roles in the current metadata, and the others later.

        Open those that are assigned to this node. The role changes are added to `changes`, and the listeners
        are notified.
        """
        assert self._image is not None
        config = cache(self._current_log_config)
        creations: list[LogCreation] = []
        for topic_id, index, is_new in self._changed.take(count):
            topic = self._image.topics_by_id.get(topic_id)
            if topic is None:
                continue
            if (topic.name, index) not in self._by_name_and_index:
                self._planning.retire_earlier_log(TopicPartition(topic.name, index), now_ms)
            creation = self._follow_partition(topic, index, config, changes, now_ms, is_new=is_new)
            if creation is not None:
                creations.append(creation)
        if creations:
            self._planning.submit(creations)
        self._notify(changes, self._image)
        if self._changed and not self._follows_later:
            self._follows_later = True
            self._log_work.call_soon(lambda: self._follow_later(now_ms))

    def _follow_later(self, now_ms: int) -> None:
        self._follows_later = False
        self._follow_changed(RoleChanges(), now_ms)

    def _follow_partition(
        self,
        topic: TopicImage,
        index: int,
        config: Callable[[str], LogConfig],
        changes: RoleChanges,
        now_ms: int,
        *,
        is_new: bool,
    ) -> LogCreation | None:
        """Give a partition its role, or return the creation of its log if that does not exist yet.

        `config` returns the log configs of a topic.
        """
        partition_image = topic.partitions[index]
        topic_partition = TopicPartition(topic.name, index)
        if self.node_id not in partition_image.replicas or self._planning.is_pending(topic_partition):
            return None
        with self._isolate_failure(topic_partition, changes):
            partition = self.partitions.get(topic_partition)
            if partition is None:
                log = self._planning.find_or_plan(
                    topic_partition, topic, config(topic.name), now_ms, is_new=is_new
                )
                if isinstance(log, LogCreation):
                    return log
                partition = Partition(topic_partition, topic.id, log, self.leadership)
            self._roles.assign(partition, partition_image, changes)
            self._register(partition)
        return None

    def _follow_new(
        self, topic: TopicImage, index: int, config: Callable[[str], LogConfig], now_ms: int
    ) -> LogCreation | None:
        """Return the creation of the log of a new partition; give it its role if the log exists."""
        assert self._image is not None
        changes = RoleChanges()
        creation = self._follow_partition(topic, index, config, changes, now_ms, is_new=True)
        if changes.has_any:
            self._notify(changes, self._image)
        return creation

    def on_log_work_done(
        self,
        outcomes: Sequence[tuple[LogCreation | Retirement, PartitionLog | Exception | None]],
        now_ms: int,
    ) -> None:
        """Register created and retired logs; give each created one the role of the current metadata."""
        creations: list[tuple[LogCreation, PartitionLog | Exception]] = []
        for work, outcome in outcomes:
            if isinstance(work, Retirement):
                self.logs.on_deleted(work, outcome if isinstance(outcome, Exception) else None)
            elif outcome is not None:
                creations.append((work, outcome))
        if creations:
            self._on_logs_created(creations, now_ms)

    def _on_logs_created(
        self, outcomes: Sequence[tuple[LogCreation, PartitionLog | Exception]], now_ms: int
    ) -> None:
        """Give the partitions of created logs their roles; remove those that left this node meanwhile."""
        image = self._image
        assert image is not None, "logs are created for partitions of the metadata"
        changes = RoleChanges()
        outdated_partitions: list[TopicPartition] = []
        for creation, outcome in outcomes:
            topic_partition = creation.topic_partition
            self._planning.end_creation(creation)
            topic = image.topics_by_id.get(cast(UUID, creation.topic_id))
            partition_image = None if topic is None else topic.partitions.get(topic_partition.partition)
            if topic is None or partition_image is None or self.node_id not in partition_image.replicas:
                outdated_partitions.append(topic_partition)
                self._register_outdated(creation, outcome)
                continue
            with self._isolate_failure(topic_partition, changes):
                log = self.logs.on_created(creation, outcome)
                partition = Partition(topic_partition, topic.id, log, self.leadership)
                self._roles.assign(partition, partition_image, changes)
                self._register(partition)
        self._remove(outdated_partitions, now_ms)
        # Configs may have changed while a log was being created.
        self._configs.apply_to((*changes.leaders, *changes.followers), image)
        for name in dict.fromkeys(each.topic for each in outdated_partitions):
            newer_topic = image.topics_by_name.get(name)
            if newer_topic is not None:
                self._add_changed(newer_topic, image)
        self._follow_changed(changes, now_ms)

    def _register_outdated(self, creation: LogCreation, outcome: PartitionLog | Exception) -> None:
        """Register the log of a partition that was removed during the creation, so that it can be retired."""
        try:
            self.logs.on_created(creation, outcome)
        except Exception as error:
            logger.error(
                "Cannot create the log of partition %s, which is no longer assigned to this node: %s",
                creation.topic_partition,
                error,
            )

    def _current_log_config(self, topic: str) -> LogConfig:
        assert self._image is not None
        return self.log_config(topic, self._image)

    def _topic_by_id(self, topic_id: UUID) -> TopicImage | None:
        assert self._image is not None
        return self._image.topics_by_id.get(topic_id)

    @contextmanager
    def _isolate_failure(self, topic_partition: TopicPartition, changes: RoleChanges) -> Iterator[None]:
        """Make the partition unavailable if the block fails, and record the failure in `changes`.

        The other partitions still get their roles, and the listeners are notified of all changes.
        """
        try:
            yield
        except Exception as error:
            self._set_unavailable(topic_partition, error)
            changes.removed.append(topic_partition)
            changes.failed.append(topic_partition)

    def _register(self, partition: Partition) -> None:
        """Make the partition available to requests."""
        self._unavailable.pop(partition.topic_partition, None)
        self.partitions[partition.topic_partition] = partition

    def _set_unavailable(self, topic_partition: TopicPartition, error: Exception) -> None:
        """Make the partition unavailable: requests for it get KAFKA_STORAGE_ERROR."""
        bug = None if isinstance(error, KafkaError | OSError) else error
        logger.error("Partition %s is unavailable: %s", topic_partition, error, exc_info=bug)
        partition = self.partitions.pop(topic_partition, None)
        if partition is not None:
            partition.end_role()
        self._unavailable[topic_partition] = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

    def assigned_partitions(self, image: MetadataImage) -> dict[TopicPartition, UUID]:
        """Return every partition that the metadata assigns to this node, with its topic id."""
        return {
            TopicPartition(topic.name, index): topic.id
            for topic in image.topics_by_name.values()
            for index, partition_image in topic.partitions.items()
            if self.node_id in partition_image.replicas
        }

    def on_directory_failed(self, topic_partitions: Iterable[TopicPartition], reason: str) -> None:
        """Make the partitions of an offline log directory unavailable, and complete waiting requests."""
        failed_partitions = sorted(key for key in topic_partitions if key in self.partitions)
        changes = RoleChanges(removed=failed_partitions, failed=failed_partitions)
        for topic_partition in failed_partitions:
            self._set_unavailable(topic_partition, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, reason))
        if self._image is not None:
            self._notify_listeners(changes, self._image)
        for topic_partition in failed_partitions:
            self.leadership.complete_waiting_requests(topic_partition)

    def on_flushed(self, log: PartitionLog) -> None:
        """Let the partition of `log` advance its high watermark after a flush of the log."""
        partition = self.partitions.get(log.topic_partition)
        if partition is not None and partition.log is log:
            partition.on_flushed()

    def on_recovered(self, partition: Partition) -> None:
        """Become leader of a partition whose log has been recovered, if this node still is its leader."""
        topic_partition, image = partition.topic_partition, self._image
        if image is None or self.partitions.get(topic_partition) is not partition:
            return
        partition_image = image.topics_by_id[partition.topic_id].partitions[topic_partition.partition]
        if not self._roles.must_lead_when_recovered(partition, partition_image):
            return
        changes = RoleChanges()
        with self._isolate_failure(topic_partition, changes):
            self._roles.lead_recovered(partition, partition_image, changes)
        self._notify(changes, image)

    # ---- configs

    def update_defaults(self, topic_defaults: Mapping[str, str], image: MetadataImage) -> None:
        """Replace the broker's defaults of topic configs."""
        self._configs.use_defaults(topic_defaults)
        self._configs.apply_to(self.partitions.values(), image)

    def log_config(self, topic: str, image: MetadataImage) -> LogConfig:
        """Return the effective log configs of a topic."""
        return self._configs.of(topic, image)

    # ---- periodic work

    def check_isrs(self) -> None:
        """Remove lagging followers from the ISRs; called every replica.lag.time.max.ms / 2."""
        for partition in list(self.partitions.values()):
            partition.check_isr()
