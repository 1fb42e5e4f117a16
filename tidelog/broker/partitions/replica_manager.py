"""The partitions this node holds: found by name, opened and closed as the metadata says.

The node follows the metadata image: `apply` opens the log of every partition that is placed
here, makes it leader or follower, and drops those that are gone or placed elsewhere. Requests
then ask for a partition and get it, or the error code of why it cannot serve.

With a `maker` deleted logs are put aside elsewhere, and those of new partitions made, while requests for
them are NOT_LEADER_OR_FOLLOWER. Once it is there, a partition gets the role that the metadata says by then:

    placed here -> being made -> made, and still placed here -> leader or follower
                              -> made, and deleted or moved meanwhile -> dropped; a newer topic's is made
                              -> failed -> KAFKA_STORAGE_ERROR

I/O: opens and renames log directories through the LogManager. Errors: KafkaError.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol, cast
from uuid import UUID

from tidelog.base.clock import SystemClock
from tidelog.broker.partitions.leadership import Leadership
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.partitions.role_changes import RoleChanges, RoleListener
from tidelog.broker.partitions.topic_log_configs import TopicLogConfigs
from tidelog.cluster.delta import MetadataDelta
from tidelog.cluster.image import (
    NO_LEADER,
    BrokerImage,
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
)
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, TopicPartition
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.directories.directory_work import LogCreation
from tidelog.storage.directories.log_directory import Retirement
from tidelog.storage.directories.log_manager import LogManager
from tidelog.storage.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)


class MakesLogs(Protocol):
    """Makes logs and puts deleted ones aside, off the loop; `LogMaker` is one."""

    def make(self, planned: Sequence[LogCreation | Retirement], /) -> None:
        """Have it done, in order; the outcomes come to `ReplicaManager.made`."""


class ReplicaManager:
    """Every partition of this node, by topic name and by topic id."""

    def __init__(
        self,
        node_id: BrokerId,
        logs: LogManager,
        topic_defaults: Mapping[str, str],
        leadership: Leadership | None = None,
    ) -> None:
        self.node_id = node_id
        self.logs = logs
        self.partitions: dict[TopicPartition, Partition] = {}
        self.listeners: list[RoleListener] = []
        self.maker: MakesLogs | None = None
        """None: logs are made and put aside at once."""
        self.leadership = leadership or Leadership(node_id, clock=SystemClock(), brokers=self._brokers)
        self._by_name_and_index = cast(dict[tuple[str, int], Partition], self.partitions)
        self._configs = TopicLogConfigs(topic_defaults)
        self._topic_names: dict[UUID, str] = {}
        self._unavailable: dict[TopicPartition, KafkaError] = {}
        self._being_made: set[TopicPartition] = set()
        self._image: MetadataImage | None = None

    def _brokers(self) -> Mapping[BrokerId, BrokerImage]:
        return {} if self._image is None else self._image.brokers

    # ---- finding

    def partition(self, topic_partition: TopicPartition) -> Partition:
        """The partition, whatever its role is here.

        Errors: KAFKA_STORAGE_ERROR, NOT_LEADER_OR_FOLLOWER when it is placed elsewhere,
        UNKNOWN_TOPIC_OR_PARTITION.
        """
        found = self.partitions.get(topic_partition)
        if found is None:
            raise self._unavailable.get(topic_partition) or self._not_here(topic_partition)
        return found

    def _not_here(self, topic_partition: TopicPartition) -> KafkaError:
        topic = None if self._image is None else self._image.topics_by_name.get(topic_partition.topic)
        if topic is not None and topic_partition.partition in topic.partitions:
            # It may have been here until now: the client looks for the leader anew.
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        else:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return KafkaError(code, f"{topic_partition} is not on node {self.node_id}")

    def topic_name(self, topic_id: UUID) -> str | None:
        """The name of a topic by its id."""
        name = self._topic_names.get(topic_id)
        if name is None and self._image is not None:
            topic = self._image.topics_by_id.get(topic_id)
            return None if topic is None else topic.name
        return name

    def resolve(self, topic: str | None, topic_id: UUID | None, index: int) -> TopicPartition:
        """The partition that a request names by topic name or, in newer versions, by topic id."""
        if topic is not None:
            return TopicPartition(topic, index)
        assert topic_id is not None
        name = self.topic_name(topic_id)
        if name is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {topic_id}")
        return TopicPartition(name, index)

    def find(self, topic: str | None, topic_id: UUID | None, index: int) -> Partition:
        """The partition that a request names; the errors of `resolve` and `partition`."""
        name = topic if topic is not None or topic_id is None else self._topic_names.get(topic_id)
        if name is not None:
            # A plain tuple finds what an equal TopicPartition does; making one costs 0.3 us a request.
            found = self._by_name_and_index.get((name, index))
            if found is not None:
                return found
        return self.partition(self.resolve(topic, topic_id, index))

    @property
    def unavailable_count(self) -> int:
        """Partitions that are placed here and cannot be used."""
        return len(self._unavailable)

    def of_topic(self, topic: str) -> Iterable[Partition]:
        """The partitions of one topic that are here."""
        known = None if self._image is None else self._image.topics_by_name.get(topic)
        if known is None:
            return [partition for key, partition in self.partitions.items() if key.topic == topic]
        here = self._by_name_and_index
        return [found for index in known.partitions if (found := here.get((topic, index))) is not None]

    # ---- following the metadata

    def apply(self, delta: MetadataDelta, image: MetadataImage, now_ms: int) -> None:
        """Follow one step of the metadata log: open and drop partitions, make them leader or follower."""
        self._image = image
        changes = RoleChanges()
        for deleted in delta.deleted_topics:
            self._topic_names.pop(deleted.id, None)
            changes.gone += (TopicPartition(deleted.name, index) for index in deleted.partitions)
        for name in delta.changed_topics:
            topic = image.topics_by_name.get(name)
            if topic is not None:
                changes.gone += self._taken_away(topic)
        # A new topic of an old name must not find the old partitions, those that failed to open included.
        changes.gone = list(dict.fromkeys(changes.gone))
        self._drop(changes.gone, now_ms)
        for name in delta.changed_topics:
            topic = image.topics_by_name.get(name)
            if topic is not None:
                self._follow_topic(topic, delta.base, changes, now_ms)
        for resource_type, name in delta.changed_configs:
            if resource_type == ResourceType.TOPIC:
                self._configs.give(self.of_topic(name), image)
        self._tell(changes, image)

    def _tell(self, changes: RoleChanges, image: MetadataImage) -> None:
        """Tell the listeners first, then who waits for one of these partitions."""
        self._tell_listeners(changes, image)
        for topic_partition in (
            *changes.gone,
            *(one.topic_partition for one in (*changes.led, *changes.followed)),
        ):
            self.leadership.progressed(topic_partition)

    def _tell_listeners(self, changes: RoleChanges, image: MetadataImage) -> None:
        for listener in self.listeners:
            try:
                listener.roles_changed(changes, image)
            except Exception:
                logger.exception("a listener failed at the roles of metadata offset %d", image.offset)

    def _taken_away(self, topic: TopicImage) -> list[TopicPartition]:
        """The partitions of a topic that were moved to other nodes."""
        here = (self.partitions, self._unavailable)
        return [
            key
            for index, placed in topic.partitions.items()
            if self.node_id not in placed.replicas
            and any((key := TopicPartition(topic.name, index)) in known for known in here)
        ]

    def _drop(self, gone: list[TopicPartition], now_ms: int) -> None:
        for topic_partition in gone:
            partition = self.partitions.pop(topic_partition, None)
            self._unavailable.pop(topic_partition, None)
            if partition is not None:
                partition.retire()
        if self.maker is None:
            self.logs.delete_all(gone, now_ms)
        else:
            self.maker.make(self.logs.planned_deletions(gone, now_ms))

    def _follow_topic(
        self, topic: TopicImage, before: MetadataImage, changes: RoleChanges, now_ms: int
    ) -> None:
        self._topic_names[topic.id] = topic.name
        known = before.topics_by_id.get(topic.id)
        partitions_before: Mapping[int, PartitionImage] = {} if known is None else known.partitions
        config: LogConfig | None = None
        creations: list[LogCreation] = []
        for index, placed in topic.partitions.items():
            if self.node_id not in placed.replicas:
                continue
            topic_partition = TopicPartition(topic.name, index)
            partition = self.partitions.get(topic_partition)
            placed_before = partitions_before.get(index)
            if (partition is not None and placed_before is placed) or topic_partition in self._being_made:
                continue
            # What is there when the node starts may have records, on a disk that is not there now.
            is_new = before.offset >= 0 and (
                placed_before is None or self.node_id not in placed_before.replicas
            )
            with self._refusing(topic_partition, changes):
                if partition is None:
                    self._set_damaged_aside(topic_partition, placed, now_ms)
                    # Once for the topic: thousands of partitions may be opened here.
                    config = config or self._current_log_config(topic.name)
                    log = self._log(topic_partition, topic.id, config, now_ms, is_new, creations)
                    if log is None:
                        continue
                    partition = Partition(topic_partition, topic.id, log, self.leadership)
                self._take_role(partition, placed, changes)
                self._serve(partition)
        if self.maker is not None and creations:
            self._being_made.update(each.topic_partition for each in creations)
            self.maker.make(creations)

    def _log(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID,
        config: LogConfig,
        now_ms: int,
        is_new: bool,
        creations: list[LogCreation],
    ) -> PartitionLog | None:
        """The log of a partition; None when it has yet to be made, which is then among `creations`."""
        if self.maker is None:
            return self.logs.get_or_create(topic_partition, topic_id, config, now_ms, is_new=is_new)
        log = self.logs.find(topic_partition, topic_id, config, now_ms)
        if log is None:
            creations.append(
                self.logs.planned_creation(topic_partition, topic_id, config, now_ms, is_new=is_new)
            )
        return log

    def made(
        self,
        outcomes: Sequence[tuple[LogCreation | Retirement, PartitionLog | Exception | None]],
        now_ms: int,
    ) -> None:
        """What the maker did: each new log gets the role that the metadata says by now."""
        created: list[tuple[LogCreation, PartitionLog | Exception]] = []
        for work, outcome in outcomes:
            if isinstance(work, Retirement):
                self.logs.deleted(work, outcome if isinstance(outcome, Exception) else None)
            elif outcome is not None:
                created.append((work, outcome))
        if created:
            self._created(created, now_ms)

    def _created(self, outcomes: Sequence[tuple[LogCreation, PartitionLog | Exception]], now_ms: int) -> None:
        image = self._image
        assert image is not None, "the metadata has placed these partitions here"
        changes = RoleChanges()
        outdated: list[TopicPartition] = []
        for creation, outcome in outcomes:
            topic_partition = creation.topic_partition
            self._being_made.discard(topic_partition)
            topic = image.topics_by_id.get(cast(UUID, creation.topic_id))
            placed = None if topic is None else topic.partitions.get(topic_partition.partition)
            if topic is None or placed is None or self.node_id not in placed.replicas:
                outdated.append(topic_partition)
                self._forget_made(creation, outcome)
                continue
            with self._refusing(topic_partition, changes):
                log = self.logs.created(creation, outcome)
                partition = Partition(topic_partition, topic.id, log, self.leadership)
                self._take_role(partition, placed, changes)
                self._serve(partition)
        self._drop(outdated, now_ms)
        # Settings may have changed while a log was being made.
        self._configs.give((*changes.led, *changes.followed), image)
        for name in dict.fromkeys(each.topic for each in outdated):
            newer = image.topics_by_name.get(name)
            if newer is not None:
                self._follow_topic(newer, image, changes, now_ms)
        self._tell(changes, image)

    def _forget_made(self, creation: LogCreation, outcome: PartitionLog | Exception) -> None:
        try:
            self.logs.created(creation, outcome)
        except Exception as error:
            logger.error("partition %s is not needed any more: %s", creation.topic_partition, error)

    def _current_log_config(self, topic: str) -> LogConfig:
        assert self._image is not None
        return self.log_config(topic, self._image)

    def _set_damaged_aside(
        self, topic_partition: TopicPartition, placed: PartitionImage, now_ms: int
    ) -> None:
        """A damaged log is copied from the leader anew, once nobody counts on what this node has."""
        counted_on = (placed.leader, *placed.isr, *placed.eligible_leader_replicas)
        if placed.leader == NO_LEADER or self.node_id in counted_on:
            return
        if self.logs.set_damaged_aside(topic_partition, now_ms):
            logger.warning(
                "partition %s is damaged here: it is put aside and copied from broker %d anew",
                topic_partition,
                placed.leader,
            )

    def _take_role(self, partition: Partition, placed: PartitionImage, changes: RoleChanges) -> None:
        if placed.leader == self.node_id:
            partition.make_leader(placed)
            changes.led.append(partition)
        elif partition.make_follower(placed):
            changes.followed.append(partition)

    @contextmanager
    def _refusing(self, topic_partition: TopicPartition, changes: RoleChanges) -> Iterator[None]:
        """Serve a partition no more if something fails with it.

        Whatever it is: the others must take their roles, and the fetchers hear of all of them.
        """
        try:
            yield
        except Exception as error:
            self._refuse(topic_partition, error)
            changes.gone.append(topic_partition)
            changes.refused.append(topic_partition)

    def _serve(self, partition: Partition) -> None:
        self._unavailable.pop(partition.topic_partition, None)
        self.partitions[partition.topic_partition] = partition

    def _refuse(self, topic_partition: TopicPartition, error: Exception) -> None:
        """Serve a partition no more whose log cannot be opened, or cannot take its leader epoch."""
        bug = None if isinstance(error, KafkaError | OSError) else error
        logger.error("partition %s is unavailable: %s", topic_partition, error, exc_info=bug)
        partition = self.partitions.pop(topic_partition, None)
        if partition is not None:
            partition.retire()
        self._unavailable[topic_partition] = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

    def expected(self, image: MetadataImage) -> dict[TopicPartition, UUID]:
        """Every partition that the metadata places here, with its topic id."""
        return {
            TopicPartition(topic.name, index): topic.id
            for topic in image.topics_by_name.values()
            for index, placed in topic.partitions.items()
            if self.node_id in placed.replicas
        }

    def storage_lost(self, lost: Iterable[TopicPartition], reason: str) -> None:
        """A log directory went offline: what was in it can be used no more, and who waits hears of it."""
        gone = [key for key in lost if key in self.partitions]
        changes = RoleChanges(gone=gone, refused=gone)
        for topic_partition in changes.gone:
            self._refuse(topic_partition, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, reason))
        if self._image is not None:
            self._tell_listeners(changes, self._image)
        for topic_partition in changes.gone:
            self.leadership.progressed(topic_partition)

    # ---- configs

    def update_defaults(self, topic_defaults: Mapping[str, str], image: MetadataImage) -> None:
        """Take over what topics have when they do not set their own."""
        self._configs.defaults = topic_defaults
        self._configs.give(self.partitions.values(), image)

    def log_config(self, topic: str, image: MetadataImage) -> LogConfig:
        """A topic's settings."""
        return self._configs.of(topic, image)

    # ---- upkeep

    def check_isrs(self) -> None:
        """Every replica.lag.time.max.ms / 2: drop followers that lag from the ISRs that are led here."""
        for partition in list(self.partitions.values()):
            partition.check_isr()
