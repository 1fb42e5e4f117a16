"""OffsetFetch: the committed offsets of a group, of some partitions or of all.

The offset of a transaction that has not ended is unstable. With `require_stable` the partition gets
UNSTABLE_OFFSET_COMMIT, otherwise the offset from before the transaction (KIP-447).

Source: OffsetMetadataManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from tidelog.broker.coordinators.groups.consumer.offset_access import check_fetch
from tidelog.broker.coordinators.groups.offset_commands import ids_differ
from tidelog.broker.coordinators.groups.offset_store import OffsetStore
from tidelog.broker.coordinators.groups.records.offset_records import CommittedOffset, OffsetKey
from tidelog.broker.coordinators.groups.registry import GroupRegistry
from tidelog.broker.coordinators.groups.streams.offset_access import check_streams_fetch
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tidelog.protocol.schema import ZERO_UUID
from tidelog.protocol.steps import Steps

NO_OFFSET = -1


class OffsetFetch:
    """Reads committed offsets; an unknown group has none."""

    def __init__(self, groups: GroupRegistry, offsets: OffsetStore) -> None:
        self._groups = groups
        self._offsets = offsets

    def check_sender(self, request: OffsetFetchRequestGroup) -> None:
        """Raise KafkaError for a share group, or if a member has another epoch than the request."""
        self._groups.check_has_offsets(request.group_id)
        group = self._groups.consumers.find(request.group_id)
        if group is not None:
            check_fetch(group, request.member_id, request.member_epoch)
        streams_group = self._groups.streams.find(request.group_id)
        if streams_group is not None:
            check_streams_fetch(streams_group, request.member_id, request.member_epoch)

    def fetch(
        self, group_id: str, topics: Iterable[OffsetFetchRequestTopics], require_stable: bool
    ) -> Steps[tuple[OffsetFetchResponseTopics, ...]]:
        """Return the offsets of the requested partitions; -1 if there is none.

        Topics have names. If a topic has an id as well, an offset that was committed for another topic of
        that name does not count.
        """
        results = []
        for topic in topics:
            partitions = []
            for index in topic.partition_indexes:
                key = OffsetKey(group_id, topic.name, index)
                partitions.append(self._partition(key, topic.topic_id, require_stable))
                yield None
            results.append(
                OffsetFetchResponseTopics(
                    name=topic.name, topic_id=topic.topic_id, partitions=tuple(partitions)
                )
            )
            yield None
        return tuple(results)

    def fetch_all(self, group_id: str, require_stable: bool) -> Steps[tuple[OffsetFetchResponseTopics, ...]]:
        """Return every committed offset, with the topic id that it was committed for.

        If two topics had the same name, only the offsets of the topic of the last commit are returned.
        """
        topics = []
        for topic, partitions in list(self._offsets.committed.offsets_of_group(group_id).items()):
            topics.append((yield from self._topic(group_id, topic, dict(partitions), require_stable)))
            yield None
        return tuple(topics)

    def _topic(
        self, group_id: str, topic: str, partitions: Mapping[int, CommittedOffset], require_stable: bool
    ) -> Steps[OffsetFetchResponseTopics]:
        topic_id, newest = ZERO_UUID, -2
        for committed in partitions.values():
            if committed.record_offset > newest:
                topic_id, newest = committed.topic_id, committed.record_offset
        results = []
        for index, committed in partitions.items():
            if not ids_differ(committed.topic_id, topic_id):
                key = OffsetKey(group_id, topic, index)
                results.append(self._partition(key, ZERO_UUID, require_stable))
            yield None
        return OffsetFetchResponseTopics(name=topic, topic_id=topic_id, partitions=tuple(results))

    def _partition(
        self, key: OffsetKey, topic_id: UUID, require_stable: bool
    ) -> OffsetFetchResponsePartitions:
        if require_stable and self._offsets.has_open_transaction(key):
            return _without_offset(key.partition, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        committed = self._offsets.committed.get(key)
        if committed is None or ids_differ(committed.topic_id, topic_id):
            return _without_offset(key.partition, ErrorCode.NONE)
        return _with_offset(key.partition, committed)


def _without_offset(partition: int, error: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=partition, committed_offset=NO_OFFSET, error_code=error
    )


def _with_offset(partition: int, committed: CommittedOffset) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )
