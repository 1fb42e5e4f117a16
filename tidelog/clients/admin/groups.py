"""Admin calls about consumer groups and their committed offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from tidelog.clients.admin.base import COORDINATOR_MOVED, AdminBase, name_tuple
from tidelog.clients.admin.types import GroupDescription, GroupListing, GroupMember
from tidelog.clients.groups.assignors.protocol import PROTOCOL_TYPE, decode_assignment, decode_subscription
from tidelog.clients.groups.committed_offsets import Committer, commit_once, fetch_committed
from tidelog.clients.groups.coordinator_lookup import CoordinatorLookup
from tidelog.clients.groups.group_offsets import OffsetAndMetadata
from tidelog.clients.metadata.cluster_metadata import partitions_by_topic
from tidelog.clients.transport.failures import failure, raise_for
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, TopicPartition
from tidelog.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from tidelog.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from tidelog.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tidelog.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from tidelog.protocol.registry import ApiKey


class GroupAdmin(AdminBase):
    """Groups. Calls about several groups return a dict with a result or a KafkaError for each."""

    async def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = (), timeout_ms: int | None = None
    ) -> dict[str, GroupListing]:
        """All groups by id, from all brokers; `states` and `types` narrow that down."""
        deadline_ms = self._deadline_ms(timeout_ms)
        request = ListGroupsRequest(
            states_filter=name_tuple(states, "states"), types_filter=name_tuple(types, "types")
        )
        brokers = self._client.network.broker_ids
        answers = await asyncio.gather(*(self._groups_of(id_, request, deadline_ms) for id_ in brokers))
        return {group.group_id: group for groups in answers for group in groups}

    async def describe_groups(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, GroupDescription | KafkaError]:
        """Groups with their members, subscriptions and assignments."""
        deadline_ms = self._deadline_ms(timeout_ms)

        async def describe(lookup: CoordinatorLookup) -> GroupDescription:
            request = DescribeGroupsRequest(groups=(lookup.key,))
            response = await lookup.request(
                ApiKey.DESCRIBE_GROUPS, lambda version: request, DescribeGroupsResponse, deadline_ms
            )
            group = response.groups[0]
            raise_for(group.error_code, f"group {group.group_id!r}", group.error_message)
            assert lookup.node_id is not None
            return _description(group, lookup.node_id)

        return await self._for_each(name_tuple(group_ids, "group_ids"), describe, deadline_ms)

    async def delete_groups(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, KafkaError | None]:
        """Delete groups that have no members, with their offsets; None for each that is deleted."""
        deadline_ms = self._deadline_ms(timeout_ms)

        async def delete(lookup: CoordinatorLookup) -> None:
            request = DeleteGroupsRequest(groups_names=(lookup.key,))
            response = await lookup.request(
                ApiKey.DELETE_GROUPS, lambda version: request, DeleteGroupsResponse, deadline_ms
            )
            for result in response.results:
                raise_for(result.error_code, f"delete group {result.group_id!r}")

        return await self._for_each(name_tuple(group_ids, "group_ids"), delete, deadline_ms)

    async def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the group has committed (None: for all partitions); partitions without are left out."""
        deadline_ms = self._deadline_ms(timeout_ms)
        return await fetch_committed(self._client, self._coordinator(group_id), partitions, deadline_ms)

    async def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Set committed offsets; the group must not have members. None for each that is set."""
        deadline_ms = self._deadline_ms(timeout_ms)
        wanted = {
            partition: OffsetAndMetadata(at) if isinstance(at, int) else at
            for partition, at in offsets.items()
        }

        async def alter(lookup: CoordinatorLookup) -> dict[TopicPartition, ErrorCode]:
            codes = await commit_once(lookup, wanted, Committer(), deadline_ms)
            for code in codes.values():
                if code in COORDINATOR_MOVED or code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    raise failure(code, f"offsets of group {group_id!r}")
            return codes

        lookup = self._coordinator(group_id)
        codes = await self._retrying(lambda: alter(lookup), deadline_ms)
        return {
            partition: None
            if code is ErrorCode.NONE
            else failure(code, f"offset of group {group_id!r} for {partition}")
            for partition, code in codes.items()
        }

    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, KafkaError | None]:
        """Delete committed offsets of topics that no member subscribes to; None for each deleted."""
        deadline_ms = self._deadline_ms(timeout_ms)
        topics = tuple(
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=tuple(OffsetDeleteRequestPartition(partition_index=number) for number in numbers),
            )
            for topic, numbers in partitions_by_topic(partitions).items()
        )
        request = OffsetDeleteRequest(group_id=group_id, topics=topics)
        lookup = self._coordinator(group_id)

        async def delete() -> OffsetDeleteResponse:
            response = await lookup.request(
                ApiKey.OFFSET_DELETE, lambda version: request, OffsetDeleteResponse, deadline_ms
            )
            if response.error_code in COORDINATOR_MOVED:
                lookup.forget()
            raise_for(response.error_code, f"delete offsets of group {group_id!r}")
            return response

        response = await self._retrying(delete, deadline_ms)
        return {
            TopicPartition(topic.name, entry.partition_index): None
            if entry.error_code == ErrorCode.NONE
            else failure(entry.error_code, f"offset of group {group_id!r} for {topic.name}")
            for topic in response.topics
            for entry in topic.partitions
        }

    async def _groups_of(
        self, broker_id: BrokerId, request: ListGroupsRequest, deadline_ms: int
    ) -> list[GroupListing]:
        async def ask() -> ListGroupsResponse:
            response = await self._client.network.request(
                broker_id, request, ListGroupsResponse, timeout_ms=self._left_ms(deadline_ms)
            )
            raise_for(response.error_code, f"groups of broker {broker_id}")
            return response

        response = await self._retrying(ask, deadline_ms)
        return [
            GroupListing(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                state=group.group_state,
                group_type=group.group_type,
            )
            for group in response.groups
        ]


def _description(group: DescribedGroup, coordinator_id: BrokerId) -> GroupDescription:
    is_consumer = group.protocol_type == PROTOCOL_TYPE
    return GroupDescription(
        group_id=group.group_id,
        state=group.group_state,
        protocol_type=group.protocol_type,
        protocol=group.protocol_data,
        members=tuple(_member(member, is_consumer=is_consumer) for member in group.members),
        coordinator_id=coordinator_id,
    )


def _member(member: DescribedGroupMember, *, is_consumer: bool) -> GroupMember:
    subscription = assignment = None
    if is_consumer and member.member_metadata:
        try:
            subscription = decode_subscription(
                member.member_metadata, group_instance_id=member.group_instance_id
            )
            assignment = decode_assignment(member.member_assignment)
        except DecodeError:
            pass  # another kind of client under the same protocol type; what it says is its own affair
    return GroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscription=subscription,
        assignment=assignment,
    )
