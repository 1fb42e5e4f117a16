"""Admin calls about share groups (KIP-932) and the start offsets of their partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tidelog.clients.admin.admin_requests import AdminRequests, error_or_none, result_for, unique_names
from tidelog.clients.admin.types import (
    ConsumerGroupEpochs,
    GroupDescription,
    GroupMember,
    SharePartitionOffset,
)
from tidelog.clients.groups.assignors.subscription import Assignment, Subscription
from tidelog.clients.groups.coordinator_lookup import CoordinatorLookup
from tidelog.clients.metadata.cluster_metadata import partitions_by_topic
from tidelog.clients.transport.failures import raise_for
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import BrokerId, Offset, TopicPartition
from tidelog.protocol.messages import alter_share_group_offsets as alter_messages
from tidelog.protocol.messages import delete_share_group_offsets as delete_messages
from tidelog.protocol.messages import describe_share_group_offsets as describe_messages
from tidelog.protocol.messages import share_group_describe as group_messages

SHARE_GROUP_TYPE: Final = "share"


class ShareGroupAdmin:
    """Share groups, and the offsets from which they read."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    async def describe_share_groups(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, GroupDescription | KafkaError]:
        """Return each share group with its members, their subscriptions and assignments."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)

        async def describe(lookup: CoordinatorLookup) -> GroupDescription:
            request = group_messages.ShareGroupDescribeRequest(group_ids=(lookup.key,))
            response = await lookup.request(request, group_messages.ShareGroupDescribeResponse, deadline_ms)
            group = response.groups[0]
            raise_for(group.error_code, f"group {group.group_id!r}", group.error_message)
            assert lookup.node_id is not None
            return _description(group, lookup.node_id)

        return await self._requests.for_each_coordinator(
            unique_names(group_ids, "group_ids"), describe, deadline_ms
        )

    async def list_share_group_offsets(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, dict[TopicPartition, SharePartitionOffset | KafkaError] | KafkaError]:
        """Return the offsets of all partitions of each share group that have been initialized."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)

        async def describe(
            lookup: CoordinatorLookup,
        ) -> dict[TopicPartition, SharePartitionOffset | KafkaError]:
            group = describe_messages.DescribeShareGroupOffsetsRequestGroup(group_id=lookup.key, topics=None)
            response = await lookup.request(
                describe_messages.DescribeShareGroupOffsetsRequest(groups=(group,)),
                describe_messages.DescribeShareGroupOffsetsResponse,
                deadline_ms,
            )
            described = response.groups[0]
            raise_for(described.error_code, f"group {lookup.key!r}", described.error_message)
            return {
                TopicPartition(topic.topic_name, entry.partition_index): error_or_none(
                    entry.error_code, f"{topic.topic_name}-{entry.partition_index}", entry.error_message
                )
                or SharePartitionOffset(
                    start_offset=entry.start_offset, leader_epoch=entry.leader_epoch, lag=entry.lag
                )
                for topic in described.topics
                for entry in topic.partitions
            }

        return await self._requests.for_each_coordinator(
            unique_names(group_ids, "group_ids"), describe, deadline_ms
        )

    async def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, Offset], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, KafkaError | None]:
        """Set start offsets of a share group that has no members; None for each partition that was set."""
        request = alter_messages.AlterShareGroupOffsetsRequest(
            group_id=group_id,
            topics=tuple(
                alter_messages.AlterShareGroupOffsetsRequestTopic(
                    topic_name=topic,
                    partitions=tuple(
                        alter_messages.AlterShareGroupOffsetsRequestPartition(
                            partition_index=index, start_offset=offsets[TopicPartition(topic, index)]
                        )
                        for index in indices
                    ),
                )
                for topic, indices in partitions_by_topic(offsets).items()
            ),
        )
        deadline_ms = self._requests.deadline_ms(timeout_ms)

        async def alter(lookup: CoordinatorLookup) -> dict[TopicPartition, KafkaError | None]:
            response = await lookup.request(
                request, alter_messages.AlterShareGroupOffsetsResponse, deadline_ms
            )
            raise_for(response.error_code, f"offsets of group {group_id!r}", response.error_message)
            return {
                TopicPartition(topic.topic_name, entry.partition_index): error_or_none(
                    entry.error_code, f"{topic.topic_name}-{entry.partition_index}", entry.error_message
                )
                for topic in response.responses
                for entry in topic.partitions
            }

        results = await self._requests.for_each_coordinator((group_id,), alter, deadline_ms)
        return result_for(results, group_id)

    async def delete_share_group_offsets(
        self, group_id: str, topics: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, KafkaError | None]:
        """Delete the offsets of topics of a share group that has no members; None for each deleted topic."""
        request = delete_messages.DeleteShareGroupOffsetsRequest(
            group_id=group_id,
            topics=tuple(
                delete_messages.DeleteShareGroupOffsetsRequestTopic(topic_name=name)
                for name in unique_names(topics, "topics")
            ),
        )
        deadline_ms = self._requests.deadline_ms(timeout_ms)

        async def delete(lookup: CoordinatorLookup) -> dict[str, KafkaError | None]:
            response = await lookup.request(
                request, delete_messages.DeleteShareGroupOffsetsResponse, deadline_ms
            )
            raise_for(response.error_code, f"offsets of group {group_id!r}", response.error_message)
            return {
                topic.topic_name: error_or_none(topic.error_code, topic.topic_name, topic.error_message)
                for topic in response.responses
            }

        results = await self._requests.for_each_coordinator((group_id,), delete, deadline_ms)
        return result_for(results, group_id)


def _description(group: group_messages.DescribedGroup, coordinator_id: BrokerId) -> GroupDescription:
    return GroupDescription(
        group_id=group.group_id,
        state=group.group_state,
        protocol_type=SHARE_GROUP_TYPE,
        protocol=group.assignor_name,
        members=tuple(_member(member) for member in group.members),
        coordinator_id=coordinator_id,
        group_type=SHARE_GROUP_TYPE,
        epochs=ConsumerGroupEpochs(group.group_epoch, group.assignment_epoch),
    )


def _member(member: group_messages.Member) -> GroupMember:
    partitions = tuple(
        TopicPartition(topic.topic_name, index)
        for topic in member.assignment.topic_partitions
        for index in topic.partitions
    )
    return GroupMember(
        member_id=member.member_id,
        group_instance_id=None,
        client_id=member.client_id,
        client_host=member.client_host,
        subscription=Subscription(topics=member.subscribed_topic_names, rack_id=member.rack_id),
        assignment=Assignment(partitions=partitions),
        member_epoch=member.member_epoch,
        uses_classic_protocol=False,
    )
