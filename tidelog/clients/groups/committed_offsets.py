"""Commits and fetches the offsets of a group (shell), for consumers and admin clients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidelog.clients.groups.coordinator_lookup import CoordinatorLookup
from tidelog.clients.groups.group_offsets import ConsumerGroupMetadata, OffsetAndMetadata
from tidelog.clients.metadata.cluster_client import ClusterClient
from tidelog.clients.metadata.cluster_metadata import partitions_by_topic
from tidelog.clients.transport.failures import COORDINATOR_MOVED, failure, known_code
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)
from tidelog.protocol.registry import ApiKey

_HIGHEST_VERSION_BY_NAME = 9
_BATCHED_VERSION = 8


async def commit_once(
    coordinator: CoordinatorLookup,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    member: ConsumerGroupMetadata,
    deadline_ms: int,
) -> dict[TopicPartition, ErrorCode]:
    """Send one OffsetCommit request; return the error code of each partition."""
    topics = []
    for topic, numbers in partitions_by_topic(offsets).items():
        partitions = tuple(
            OffsetCommitRequestPartition(
                partition_index=number,
                committed_offset=offsets[TopicPartition(topic, number)].offset,
                committed_leader_epoch=offsets[TopicPartition(topic, number)].leader_epoch,
                committed_metadata=offsets[TopicPartition(topic, number)].metadata,
            )
            for number in numbers
        )
        topics.append(OffsetCommitRequestTopic(name=topic, partitions=partitions))
    request = OffsetCommitRequest(
        group_id=member.group_id,
        generation_id_or_member_epoch=member.generation,
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        topics=tuple(topics),
    )
    response = await coordinator.request(
        request,
        OffsetCommitResponse,
        deadline_ms,
        highest_version=_HIGHEST_VERSION_BY_NAME,
    )
    codes = {
        TopicPartition(topic.name, entry.partition_index): known_code(entry.error_code)
        for topic in response.topics
        for entry in topic.partitions
    }
    if any(code in COORDINATOR_MOVED for code in codes.values()):
        coordinator.forget()
    return codes


async def fetch_committed(
    client: ClusterClient,
    coordinator: CoordinatorLookup,
    topic_partitions: Iterable[TopicPartition] | None,
    deadline_ms: int,
    *,
    require_stable: bool = False,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the committed offsets of these partitions (None: of all); omit those without an offset.

    Retry after retriable errors until `deadline_ms`. `require_stable`: wait for the end of transactions that
    commit offsets of these partitions (KIP-447).
    """
    partitions = None if topic_partitions is None else list(topic_partitions)

    async def attempt() -> dict[TopicPartition, OffsetAndMetadata]:
        try:
            return await _fetch_once(coordinator, partitions, deadline_ms, require_stable=require_stable)
        except KafkaError as error:
            if error.code in COORDINATOR_MOVED:
                coordinator.forget()
            raise

    return await client.retry(attempt, deadline_ms)


async def _fetch_once(
    coordinator: CoordinatorLookup,
    topic_partitions: list[TopicPartition] | None,
    deadline_ms: int,
    *,
    require_stable: bool,
) -> dict[TopicPartition, OffsetAndMetadata]:
    group_id = coordinator.key
    grouped = None if topic_partitions is None else partitions_by_topic(topic_partitions)

    def make(version: int) -> OffsetFetchRequest:
        if version >= _BATCHED_VERSION:
            many = None if grouped is None else _topics(grouped)
            group = OffsetFetchRequestGroup(group_id=group_id, topics=many)
            return OffsetFetchRequest(groups=(group,), require_stable=require_stable)
        topics = None if grouped is None else _single_group_topics(grouped)
        stable = require_stable and version >= 7
        return OffsetFetchRequest(group_id=group_id, topics=topics, require_stable=stable)

    response = await coordinator.request_for_version(
        ApiKey.OFFSET_FETCH,
        make,
        OffsetFetchResponse,
        deadline_ms,
        highest_version=_HIGHEST_VERSION_BY_NAME,
    )
    subject = f"committed offsets of group {group_id!r}"
    group_code = response.groups[0].error_code if response.groups else response.error_code
    if group_code != ErrorCode.NONE:
        raise failure(group_code, subject)
    committed: dict[TopicPartition, OffsetAndMetadata] = {}
    for topic_partition, entry in _entries(response):
        if entry.error_code != ErrorCode.NONE:
            raise failure(entry.error_code, f"{subject}, {topic_partition}")
        if entry.committed_offset >= 0:
            committed[topic_partition] = OffsetAndMetadata(
                entry.committed_offset, entry.metadata or "", entry.committed_leader_epoch
            )
    return committed


def _entries(
    response: OffsetFetchResponse,
) -> Iterable[tuple[TopicPartition, OffsetFetchResponsePartition | OffsetFetchResponsePartitions]]:
    for group in response.groups:
        for group_topic in group.topics:
            for partition in group_topic.partitions:
                yield TopicPartition(group_topic.name, partition.partition_index), partition
    for topic in response.topics:
        for entry in topic.partitions:
            yield TopicPartition(topic.name, entry.partition_index), entry


def _topics(grouped: Mapping[str, list[int]]) -> tuple[OffsetFetchRequestTopics, ...]:
    return tuple(
        OffsetFetchRequestTopics(name=topic, partition_indexes=tuple(numbers))
        for topic, numbers in grouped.items()
    )


def _single_group_topics(grouped: Mapping[str, list[int]]) -> tuple[OffsetFetchRequestTopic, ...]:
    return tuple(
        OffsetFetchRequestTopic(name=topic, partition_indexes=tuple(numbers))
        for topic, numbers in grouped.items()
    )
