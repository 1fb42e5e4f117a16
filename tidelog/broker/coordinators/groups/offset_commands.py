"""OffsetCommit and OffsetDelete.

Members of the current generation may commit. While the group is empty, any client may commit with generation
-1: a simple consumer, or an administrator.

Source: OffsetMetadataManager and ClassicGroup of Apache Kafka 4.3; KIP-496 (OffsetDelete).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Protocol
from uuid import UUID

from tidelog.broker.coordinators.groups.classic.group import Group
from tidelog.broker.coordinators.groups.classic.states import GroupState
from tidelog.broker.coordinators.groups.config import GroupConfig
from tidelog.broker.coordinators.groups.consumer.offset_access import Committer, check_commit
from tidelog.broker.coordinators.groups.offset_store import OffsetStore
from tidelog.broker.coordinators.groups.outcome import Writes
from tidelog.broker.coordinators.groups.rebalance import Rebalance
from tidelog.broker.coordinators.groups.records.coordinator_records import CoordinatorRecord
from tidelog.broker.coordinators.groups.records.offset_records import (
    OffsetCommitRecord,
    OffsetKey,
    offset_tombstone,
)
from tidelog.broker.coordinators.groups.registry import GroupRegistry, is_subscribed_to
from tidelog.broker.coordinators.groups.share.group import ShareGroup
from tidelog.broker.coordinators.groups.streams.offset_access import check_streams_commit
from tidelog.broker.coordinators.groups.sync import check_generation
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import Outcome
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from tidelog.protocol.schema import ZERO_UUID

logger = logging.getLogger(__name__)

GROUP_ID_NOT_FOUND_FROM_VERSION = 9


class CommitSender(Protocol):
    """The sender of an OffsetCommit, as the request or its view identifies it."""

    @property
    def group_id(self) -> str: ...

    @property
    def generation_id_or_member_epoch(self) -> int: ...

    @property
    def member_id(self) -> str: ...

    @property
    def group_instance_id(self) -> str | None: ...


class OffsetCommands:
    """The commands that commit and delete offsets."""

    def __init__(
        self, groups: GroupRegistry, offsets: OffsetStore, rebalance: Rebalance, config: GroupConfig
    ) -> None:
        self._groups = groups
        self._offsets = offsets
        self._rebalance = rebalance
        self._config = config

    def commit(self, sender: CommitSender, version: int, now: Moment, writes: Writes) -> Outcome[None]:
        """Commit the offsets of `writes`, which were prepared for the sender's request.

        The command reads the group, and no offsets. So commits can be batched: none depends on the records of
        the others. Raise KafkaError if the sender may not commit at all; nothing has changed then.
        """
        groups, group_id = self._groups, sender.group_id
        groups.check_has_offsets(group_id)
        if (consumer_group := groups.consumers.find(group_id)) is not None:
            check_commit(consumer_group, _committer(sender, version), partitions_of(writes.records))
        elif (streams_group := groups.streams.find(group_id)) is not None:
            check_streams_commit(
                streams_group, _committer(sender, version), named_partitions_of(writes.records)
            )
        elif (group := groups.get(group_id)) is not None:
            self._check_sender(group, sender, now)
        elif sender.generation_id_or_member_epoch >= 0:
            code = (
                ErrorCode.GROUP_ID_NOT_FOUND
                if version >= GROUP_ID_NOT_FOUND_FROM_VERSION
                else ErrorCode.ILLEGAL_GENERATION
            )
            raise KafkaError(code, f"Group {group_id} not found.")
        return Outcome(None, writes)

    def _check_sender(self, group: Group, sender: CommitSender, now: Moment) -> None:
        generation = sender.generation_id_or_member_epoch
        if generation < 0 and group.state is GroupState.EMPTY:
            return
        if generation < 0 and not sender.member_id and sender.group_instance_id is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"group {group.group_id} has members; only they may commit",
            )
        member = group.check_member(sender.member_id, sender.group_instance_id)
        check_generation(group, generation)
        if group.state is GroupState.COMPLETING_REBALANCE:
            # The member knows the generation, so it must send SyncGroup first.
            text = f"group {group.group_id} waits for the assignment"
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, text)
        self._rebalance.keep_alive(group, member, now)

    def delete(self, request: OffsetDeleteRequest) -> Outcome[OffsetDeleteResponse]:
        """Delete offsets of topics that no member subscribes to.

        Raise KafkaError if the group is unknown, or if its members do not use the consumer protocol.
        """
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        self._groups.check_has_offsets(request.group_id)
        group = self._groups.require(request.group_id)
        assert not isinstance(group, ShareGroup)
        if isinstance(group, Group) and group.state is not GroupState.EMPTY and not group.is_consumer_group:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"group {request.group_id} has members")
        records: list[OffsetCommitRecord] = []
        topics = []
        for topic in request.topics:
            subscribed = is_subscribed_to(group, topic.name)
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
            results = []
            for partition in topic.partitions:
                key = OffsetKey(request.group_id, topic.name, partition.partition_index)
                if not subscribed and self._has_offset(key):
                    records.append(offset_tombstone(*key))
                results.append(OffsetDeleteResponsePartition(partition_index=key.partition, error_code=error))
            topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=tuple(results)))
        return Outcome(OffsetDeleteResponse(topics=tuple(topics)), Writes(tuple(records)))

    def _has_offset(self, key: OffsetKey) -> bool:
        return self._offsets.latest.get(key) is not None or self._offsets.has_open_transaction(key)

    def delete_of_topics(self, topics: Mapping[str, UUID]) -> Writes:
        """Delete the offsets of deleted topics, which are given by name with their ids.

        An offset that was committed for another topic of the same name is kept. The offsets of transactions
        that have not ended are deleted, too: otherwise their commit would restore them.
        """
        deleted = dict.fromkeys(
            key
            for key, committed in chain(self._offsets.latest.items(), self._offsets.in_open_transactions())
            if key.topic in topics and not ids_differ(committed.topic_id, topics[key.topic])
        )
        return Writes(tuple(offset_tombstone(*key) for key in deleted), may_split=True)


def partitions_of(records: Iterable[CoordinatorRecord]) -> Iterator[tuple[UUID, int]]:
    """Yield topic id and index of the partitions whose offsets are committed."""
    for record in records:
        if isinstance(record, OffsetCommitRecord) and record.value is not None:
            yield record.value.topic_id, record.key.partition


def named_partitions_of(records: Iterable[CoordinatorRecord]) -> Iterator[TopicPartition]:
    """Yield the partitions whose offsets are committed."""
    for record in records:
        if isinstance(record, OffsetCommitRecord) and record.value is not None:
            yield TopicPartition(record.key.topic, record.key.partition)


def _committer(sender: CommitSender, version: int) -> Committer:
    epoch = sender.generation_id_or_member_epoch
    return Committer(sender.member_id, sender.group_instance_id, epoch, version)


def ids_differ(left: UUID, right: UUID) -> bool:
    """Return whether two topic ids are known and different."""
    return ZERO_UUID not in (left, right) and left != right
