"""OffsetCommit and OffsetDelete.

Members of the current generation may commit. While the group is empty, any client may commit with generation
-1: a simple consumer, or an administrator.

Source: OffsetMetadataManager and ClassicGroup of Apache Kafka 4.3; KIP-496 (OffsetDelete).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple
from uuid import UUID

from tidelog.broker.coordinators.groups.classic.group import Group
from tidelog.broker.coordinators.groups.classic.states import GroupState
from tidelog.broker.coordinators.groups.config import GroupConfig
from tidelog.broker.coordinators.groups.consumer.offset_access import Committer, check_commit
from tidelog.broker.coordinators.groups.offset_store import OffsetKey, OffsetStore
from tidelog.broker.coordinators.groups.outcome import Writes
from tidelog.broker.coordinators.groups.rebalance import Rebalance
from tidelog.broker.coordinators.groups.records.coordinator_records import (
    CoordinatorRecord,
    OffsetCommitRecord,
    encode_record,
    offset_tombstone,
)
from tidelog.broker.coordinators.groups.registry import GroupRegistry, is_subscribed_to
from tidelog.broker.coordinators.groups.share.group import ShareGroup
from tidelog.broker.coordinators.groups.streams.offset_access import check_streams_commit
from tidelog.broker.coordinators.groups.sync import check_generation
from tidelog.broker.coordinators.shared import outcome
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import Outcome
from tidelog.protocol.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tidelog.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from tidelog.protocol.schema import ZERO_UUID
from tidelog.protocol.steps import Steps

logger = logging.getLogger(__name__)

GROUP_ID_NOT_FOUND_FROM_VERSION = 9
BROKER_RETENTION = -1
NO_EXPIRY = -1
# The latest expiry: a commit with a longer retention time is kept until then.
_END_OF_TIME_MS = 2**63 - 1


class PreparedCommit(NamedTuple):
    """The response and the writes of a commit, if its sender is allowed to commit."""

    response: OffsetCommitResponse
    writes: Writes


def prepare_commit(
    request: OffsetCommitRequest,
    topics: Iterable[OffsetCommitRequestTopic],
    now: Moment,
    metadata_bytes_max: int,
) -> Steps[PreparedCommit]:
    """Return the part of a commit of `topics` that depends on the request alone; `commit` does the rest.

    Every topic has its name and its id, which the caller has looked up. An offset with more than
    `metadata_bytes_max` of metadata is left out.
    """
    expire_wall_ms = NO_EXPIRY
    if request.retention_time_ms != BROKER_RETENTION:
        expire_wall_ms = min(now.wall_ms + request.retention_time_ms, _END_OF_TIME_MS)
    records: list[OffsetCommitRecord] = []
    encoded: list[tuple[bytes, bytes | None]] = []
    responses = []
    for topic in topics:
        results = []
        for partition in topic.partitions:
            error = ErrorCode.NONE
            metadata = partition.committed_metadata or ""
            if len(metadata) > metadata_bytes_max:
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                record = OffsetCommitRecord(
                    OffsetCommitKey(
                        group=request.group_id, topic=topic.name, partition=partition.partition_index
                    ),
                    OffsetCommitValue(
                        offset=partition.committed_offset,
                        leader_epoch=partition.committed_leader_epoch,
                        metadata=metadata,
                        commit_timestamp=now.wall_ms,
                        expire_timestamp=expire_wall_ms,
                        topic_id=topic.topic_id,
                    ),
                )
                records.append(record)
                encoded.append(encode_record(record))
            results.append(
                OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
            )
            yield None
        responses.append(
            OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=tuple(results))
        )
    writes: Writes = outcome.Writes(records, encoded=encoded)
    return PreparedCommit(OffsetCommitResponse(topics=tuple(responses)), writes)


class OffsetCommands:
    """The commands that commit and delete offsets."""

    def __init__(
        self, groups: GroupRegistry, offsets: OffsetStore, rebalance: Rebalance, config: GroupConfig
    ) -> None:
        self._groups = groups
        self._offsets = offsets
        self._rebalance = rebalance
        self._config = config

    def commit(
        self, request: OffsetCommitRequest, version: int, now: Moment, prepared: PreparedCommit
    ) -> Outcome[OffsetCommitResponse]:
        """Commit the offsets that `prepare_commit` has prepared.

        The command reads the group, and no offsets. So commits can be batched: none depends on the records of
        the others. Raise KafkaError if the sender may not commit at all.
        """
        self._groups.check_has_offsets(request.group_id)
        group = self._groups.get(request.group_id)
        consumer_group = self._groups.consumers.find(request.group_id)
        streams_group = self._groups.streams.find(request.group_id)
        writes = prepared.writes
        if consumer_group is not None:
            check_commit(consumer_group, _committer(request, version), partitions_of(writes.records))
        elif streams_group is not None:
            check_streams_commit(
                streams_group, _committer(request, version), named_partitions_of(writes.records)
            )
        elif group is not None:
            self._check_sender(group, request, now)
        elif request.generation_id_or_member_epoch >= 0:
            code = (
                ErrorCode.GROUP_ID_NOT_FOUND
                if version >= GROUP_ID_NOT_FOUND_FROM_VERSION
                else ErrorCode.ILLEGAL_GENERATION
            )
            raise KafkaError(code, f"Group {request.group_id} not found.")
        return Outcome(prepared.response, writes)

    def _check_sender(self, group: Group, request: OffsetCommitRequest, now: Moment) -> None:
        generation = request.generation_id_or_member_epoch
        if generation < 0 and group.state is GroupState.EMPTY:
            return
        if generation < 0 and not request.member_id and request.group_instance_id is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"group {group.group_id} has members; only they may commit",
            )
        member = group.check_member(request.member_id, request.group_instance_id)
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


def _committer(request: OffsetCommitRequest, version: int) -> Committer:
    epoch = request.generation_id_or_member_epoch
    return Committer(request.member_id, request.group_instance_id, epoch, version)


def ids_differ(left: UUID, right: UUID) -> bool:
    """Return whether two topic ids are known and different."""
    return ZERO_UUID not in (left, right) and left != right
