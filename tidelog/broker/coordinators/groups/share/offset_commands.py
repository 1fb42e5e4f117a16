"""The states of share partitions as commands of the group change them: initialization, new offsets, deletion.

The share coordinator stores the states. A command returns the states that the caller must initialize or
delete there when the records are committed; the caller then calls `on_initialized` or `end_deletion`.

Source: GroupMetadataManager.initializeShareGroupState, alterShareGroupOffsets,
sharePartitionsEligibleForOffsetDeletion and shareGroupBuildPartitionDeleteRequest of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from tidelog.broker.coordinators.groups.consumer.topics import Topics
from tidelog.broker.coordinators.groups.outcome import Writes
from tidelog.broker.coordinators.groups.records.coordinator_records import CoordinatorRecord
from tidelog.broker.coordinators.groups.share.group import ShareGroup
from tidelog.broker.coordinators.groups.share.heartbeat import initial_states
from tidelog.broker.coordinators.groups.share.initialization_times import InitializationTimes
from tidelog.broker.coordinators.groups.share.lookup import ShareGroupLookup, ShareGroups
from tidelog.broker.coordinators.groups.share.records import state_partitions
from tidelog.broker.coordinators.groups.share.state_partitions import (
    Partitions,
    StatePartitions,
    TopicPartitions,
)
from tidelog.broker.coordinators.share.persister import InitialState, SharePartitionKey
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import NO_WRITES, Outcome
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from tidelog.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsResponseTopic
from tidelog.protocol.steps import Steps

_NO_OFFSETS = "There is no offset information to delete."


class OffsetAlteration(NamedTuple):
    """The results of the topics so far, and the states that must be initialized at the new offsets."""

    topics: list[AlterShareGroupOffsetsResponseTopic]
    to_initialize: list[InitialState]


class RequestedOffsets(NamedTuple):
    """The results of the topics of a request, its existing partitions, and their new offsets."""

    results: list[AlterShareGroupOffsetsResponseTopic]
    partitions: dict[UUID, TopicPartitions]
    offsets: dict[tuple[UUID, int], int]


class OffsetDeletion(NamedTuple):
    """The topics with an error, the names of the others by id, and the states that must be deleted."""

    errors: list[DeleteShareGroupOffsetsResponseTopic]
    names: Mapping[UUID, str]
    states: list[SharePartitionKey]


class ShareOffsetCommands:
    """The commands that change the states of share partitions."""

    def __init__(
        self,
        groups: ShareGroups,
        lookup: ShareGroupLookup,
        topics: Topics,
        times: InitializationTimes,
    ) -> None:
        self._times = times
        self._groups = groups
        self._lookup = lookup
        self._topics = topics

    # Initialization

    def on_initialized(
        self,
        group_id: str,
        initialized: Iterable[SharePartitionKey],
        failed: Iterable[SharePartitionKey],
    ) -> Writes:
        """Write which states are initialized. The next heartbeat initializes the others again."""
        group = self._groups.shares.find(group_id)
        if group is None:
            return NO_WRITES
        changed = group.state_partitions.end_initialization(
            self._partitions(group, initialized), self._partitions(group, failed)
        )
        return _writes(group, changed)

    def _partitions(self, group: ShareGroup, keys: Iterable[SharePartitionKey]) -> Partitions:
        """Return the partitions whose initialization has begun and has not ended."""
        initializing = group.state_partitions.initializing
        partitions: dict[UUID, TopicPartitions] = {}
        for key in keys:
            topic = initializing.get(key.topic_id)
            if topic is not None and key.partition in topic.partitions:
                indexes = partitions[key.topic_id].partitions if key.topic_id in partitions else frozenset()
                partitions[key.topic_id] = TopicPartitions(topic.name, indexes | {key.partition})
        return partitions

    # New offsets

    def find_partitions(self, request: AlterShareGroupOffsetsRequest) -> Steps[RequestedOffsets]:
        """Return the partitions whose offsets `alter` sets."""
        requested = RequestedOffsets([], {}, {})
        for topic in request.topics:
            requested.results.append((yield from self._find_partitions_of(topic, requested)))
        return requested

    def alter(self, group_id: str, requested: RequestedOffsets, now: Moment) -> Outcome[OffsetAlteration]:
        """Set start offsets of a group without members, which is created if necessary.

        Raise GROUP_ID_NOT_FOUND for a group of another type, NON_EMPTY_GROUP if there are members.
        """
        group = self._lookup.to_join(group_id)
        _check_empty(group)
        results, partitions, offsets = requested
        if not partitions:
            return Outcome(OffsetAlteration(results, []))
        changed = group.state_partitions.begin_initialization(partitions)
        self._times.begin(group.group_id, partitions, now.monotonic_ms)
        states = initial_states(group.group_id, group.epochs.group_epoch, partitions, offsets)
        return Outcome(OffsetAlteration(results, states), _writes(group, changed))

    def _find_partitions_of(
        self, requested_topic: AlterShareGroupOffsetsRequestTopic, requested: RequestedOffsets
    ) -> Steps[AlterShareGroupOffsetsResponseTopic]:
        """Return the result of a topic; add its existing partitions and their offsets."""
        topic = self._topics.by_name(requested_topic.topic_name)
        results = []
        indexes = set()
        for partition in requested_topic.partitions:
            yield None
            index, error = partition.partition_index, ErrorCode.NONE
            if topic is None or index not in topic.partitions:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                indexes.add(index)
                requested.offsets[topic.id, index] = partition.start_offset
            results.append(
                AlterShareGroupOffsetsResponsePartition(
                    partition_index=index,
                    error_code=error,
                    error_message=None if error is ErrorCode.NONE else error.text,
                )
            )
        if topic is None:
            return AlterShareGroupOffsetsResponseTopic(
                topic_name=requested_topic.topic_name, partitions=tuple(results)
            )
        if indexes:
            requested.partitions[topic.id] = TopicPartitions(topic.name, frozenset(indexes))
        return AlterShareGroupOffsetsResponseTopic(
            topic_name=topic.name, topic_id=topic.id, partitions=tuple(results)
        )

    # Deletion

    def find_topics(
        self, names: Iterable[str]
    ) -> Steps[tuple[dict[UUID, str], list[DeleteShareGroupOffsetsResponseTopic]]]:
        """Return the names of existing topics by id, and the errors of the others."""
        topics: dict[UUID, str] = {}
        errors: list[DeleteShareGroupOffsetsResponseTopic] = []
        for name in names:
            topic = self._topics.by_name(name)
            if topic is None:
                errors.append(_deletion_error(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.text))
            else:
                topics[topic.id] = name
            yield None
        return topics, errors

    def begin_deletion(self, group_id: str, topics: Mapping[UUID, str]) -> Outcome[OffsetDeletion]:
        """Begin to delete the states of topics, with names by id, of a group without members.

        Raise GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP.
        """
        group = self._lookup.existing(group_id, "Group")
        _check_empty(group)
        current = group.state_partitions
        errors: list[DeleteShareGroupOffsetsResponseTopic] = []
        names: dict[UUID, str] = {}
        states: list[SharePartitionKey] = []
        for topic_id, name in topics.items():
            topic = self._topics.by_id(topic_id)
            if topic_id in current.initialized:
                indexes: Collection[int] = current.initialized[topic_id].partitions
            elif topic_id in current.deleting and topic is not None:
                indexes = topic.partitions.keys()
            else:
                errors.append(_deletion_error(name, _NO_OFFSETS))
                continue
            names[topic_id] = name
            states += [SharePartitionKey(group_id, topic_id, index) for index in sorted(indexes)]
        writes = _writes(group, current.begin_deletion(names)) if names else NO_WRITES
        return Outcome(OffsetDeletion(errors, names, states), writes)

    def exists(self, group_id: str) -> bool:
        """Return whether there is a share group with the id."""
        return group_id in self._groups.shares

    def begin_deletion_of_all(self, group_id: str) -> Outcome[list[SharePartitionKey]]:
        """Begin to delete all states of a group without members; there are none for another group."""
        group = self._groups.shares.find(group_id)
        if group is None or group.members:
            return Outcome([])
        current = group.state_partitions
        states = {
            SharePartitionKey(group_id, topic_id, index): None
            for partitions in (current.initialized, current.initializing)
            for topic_id, topic in partitions.items()
            for index in sorted(topic.partitions)
        }
        for topic_id in current.deleting:
            topic_image = self._topics.by_id(topic_id)
            if topic_image is not None:
                keys = (SharePartitionKey(group_id, topic_id, index) for index in topic_image.partitions)
                states |= dict.fromkeys(keys)
        writes = _writes(group, current.begin_deletion_of_all()) if states else NO_WRITES
        return Outcome(list(states), writes)

    def end_deletion(self, group_id: str, topic_ids: Collection[UUID]) -> Writes:
        """Note that the states of topics are deleted."""
        group = self._groups.shares.find(group_id)
        return NO_WRITES if group is None else _writes(group, group.state_partitions.end_deletion(topic_ids))

    def forget_topics(self, topic_ids: Collection[UUID]) -> Writes:
        """Drop the partitions of deleted topics; the share coordinator deletes their states."""
        records: list[CoordinatorRecord] = []
        for group in self._groups.shares:
            records += _writes(group, group.state_partitions.without_topics(topic_ids)).records
        return Writes(tuple(records), may_split=True)

    # Look-ups

    def initialized(self, group_id: str) -> Partitions:
        """Return the partitions of a group whose state is initialized; none of an unknown group."""
        group = self._groups.shares.find(group_id)
        return {} if group is None else group.state_partitions.initialized


def _writes(group: ShareGroup, changed: StatePartitions) -> Writes:
    """Return the record of changed partitions; none if they are the same."""
    if changed == group.state_partitions:
        return NO_WRITES
    return Writes((state_partitions(group.group_id, changed),))


def _check_empty(group: ShareGroup) -> None:
    if group.members:
        text = "The group is not empty."
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP, text)


def _deletion_error(name: str, text: str) -> DeleteShareGroupOffsetsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DeleteShareGroupOffsetsResponseTopic(topic_name=name, error_code=code, error_message=text)
