"""Admin calls about consumer groups and their committed offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from typing import TypeVar

from tidelog.clients.admin import consumer_groups, streams_groups
from tidelog.clients.admin.admin_requests import AdminRequests, error_or_none, unique_names
from tidelog.clients.admin.types import GroupDescription, GroupListing, GroupMember
from tidelog.clients.groups.assignors.protocol import PROTOCOL_TYPE, decode_assignment, decode_subscription
from tidelog.clients.groups.committed_offsets import commit_once, fetch_committed
from tidelog.clients.groups.coordinator_lookup import CoordinatorLookup
from tidelog.clients.groups.group_offsets import ConsumerGroupMetadata, OffsetAndMetadata
from tidelog.clients.metadata.cluster_metadata import partitions_by_topic
from tidelog.clients.transport.failures import COORDINATOR_MOVED, failure, raise_for
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, TopicPartition
from tidelog.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from tidelog.protocol.messages.consumer_group_describe import DescribedGroup as ConsumerGroup
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
from tidelog.protocol.messages.streams_group_describe import DescribedGroup as StreamsGroup
from tidelog.protocol.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)

ResponseT = TypeVar("ResponseT")


class GroupAdmin:
    """Groups and their committed offsets."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    async def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = (), timeout_ms: int | None = None
    ) -> dict[str, GroupListing]:
        """Return all groups of all brokers by id; `states` and `types` select some of them."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        request = ListGroupsRequest(
            states_filter=unique_names(states, "states"), types_filter=unique_names(types, "types")
        )
        brokers = self._requests.client.network.broker_ids
        responses = await asyncio.gather(
            *(self._list_groups_of(id_, request, deadline_ms) for id_ in brokers)
        )
        return {group.group_id: group for groups in responses for group in groups}

    async def describe_groups(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, GroupDescription | KafkaError]:
        """Return each group with its members, their subscriptions and assignments."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)

        async def describe(lookup: CoordinatorLookup) -> GroupDescription:
            for describe_type in (_describe_consumer_group, _describe_streams_group):
                described = await describe_type(lookup, deadline_ms)
                if described is not None:
                    return described
            request = DescribeGroupsRequest(groups=(lookup.key,))
            response = await lookup.request(request, DescribeGroupsResponse, deadline_ms)
            group = response.groups[0]
            raise_for(group.error_code, f"group {group.group_id!r}", group.error_message)
            assert lookup.node_id is not None
            return _description(group, lookup.node_id)

        return await self._requests.for_each_coordinator(
            unique_names(group_ids, "group_ids"), describe, deadline_ms
        )

    async def delete_groups(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, KafkaError | None]:
        """Delete groups that have no members, and their offsets; None for each deleted group."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)

        async def delete(lookup: CoordinatorLookup) -> None:
            request = DeleteGroupsRequest(groups_names=(lookup.key,))
            response = await lookup.request(request, DeleteGroupsResponse, deadline_ms)
            for result in response.results:
                raise_for(result.error_code, f"delete group {result.group_id!r}")

        return await self._requests.for_each_coordinator(
            unique_names(group_ids, "group_ids"), delete, deadline_ms
        )

    async def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets of these partitions (None: of all); omit those without an offset."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        return await fetch_committed(
            self._requests.client, self._requests.coordinator(group_id), partitions, deadline_ms
        )

    async def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Set committed offsets of a group that has no members; None for each partition that was set."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        positions = {
            partition: OffsetAndMetadata(offset) if isinstance(offset, int) else offset
            for partition, offset in offsets.items()
        }

        async def alter(lookup: CoordinatorLookup) -> dict[TopicPartition, ErrorCode]:
            codes = await commit_once(lookup, positions, ConsumerGroupMetadata(group_id), deadline_ms)
            for code in codes.values():
                if code in COORDINATOR_MOVED or code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    raise failure(code, f"offsets of group {group_id!r}")
            return codes

        lookup = self._requests.coordinator(group_id)
        codes = await self._requests.retry(lambda: alter(lookup), deadline_ms)
        return {
            partition: None
            if code is ErrorCode.NONE
            else failure(code, f"offset of group {group_id!r} for {partition}")
            for partition, code in codes.items()
        }

    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, KafkaError | None]:
        """Delete committed offsets of topics that no member subscribes to; None for each partition."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        topics = tuple(
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=tuple(OffsetDeleteRequestPartition(partition_index=number) for number in numbers),
            )
            for topic, numbers in partitions_by_topic(partitions).items()
        )
        request = OffsetDeleteRequest(group_id=group_id, topics=topics)
        lookup = self._requests.coordinator(group_id)

        async def delete() -> OffsetDeleteResponse:
            response = await lookup.request(request, OffsetDeleteResponse, deadline_ms)
            if response.error_code in COORDINATOR_MOVED:
                lookup.forget()
            raise_for(response.error_code, f"delete offsets of group {group_id!r}")
            return response

        response = await self._requests.retry(delete, deadline_ms)
        return {
            TopicPartition(topic.name, entry.partition_index): error_or_none(
                entry.error_code, f"offset of group {group_id!r} for {topic.name}"
            )
            for topic in response.topics
            for entry in topic.partitions
        }

    async def _list_groups_of(
        self, broker_id: BrokerId, request: ListGroupsRequest, deadline_ms: int
    ) -> list[GroupListing]:
        async def call() -> ListGroupsResponse:
            response = await self._requests.client.network.request(
                broker_id, request, ListGroupsResponse, timeout_ms=self._requests.remaining_ms(deadline_ms)
            )
            raise_for(response.error_code, f"groups of broker {broker_id}")
            return response

        response = await self._requests.retry(call, deadline_ms)
        return [
            GroupListing(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                state=group.group_state,
                group_type=group.group_type,
            )
            for group in response.groups
        ]


async def _describe_consumer_group(lookup: CoordinatorLookup, deadline_ms: int) -> GroupDescription | None:
    """Return the description of a consumer group (KIP-848); None if the group is of another type."""
    request = ConsumerGroupDescribeRequest(group_ids=(lookup.key,))
    response = await _if_served(lookup.request(request, ConsumerGroupDescribeResponse, deadline_ms))
    if response is None or _is_of_another_type(response.groups[0]):
        return None
    assert lookup.node_id is not None
    return consumer_groups.description_of(response.groups[0], lookup.node_id)


async def _describe_streams_group(lookup: CoordinatorLookup, deadline_ms: int) -> GroupDescription | None:
    """Return the description of a streams group (KIP-1071); None if the group is of another type."""
    request = StreamsGroupDescribeRequest(group_ids=(lookup.key,))
    response = await _if_served(lookup.request(request, StreamsGroupDescribeResponse, deadline_ms))
    if response is None or _is_of_another_type(response.groups[0]):
        return None
    assert lookup.node_id is not None
    return streams_groups.description_of(response.groups[0], lookup.node_id)


async def _if_served(response: Awaitable[ResponseT]) -> ResponseT | None:
    """Return a response; None if the broker does not serve the API."""
    try:
        return await response
    except KafkaError as error:
        if error.code is ErrorCode.UNSUPPORTED_VERSION:
            return None
        raise


def _is_of_another_type(group: ConsumerGroup | StreamsGroup) -> bool:
    """Return whether a group is not of the type of the request. Raise KafkaError for its other errors."""
    if group.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
        return True
    raise_for(group.error_code, f"group {group.group_id!r}", group.error_message)
    return False


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
            pass  # another kind of client uses the same protocol type with bytes of its own format
    return GroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscription=subscription,
        assignment=assignment,
    )
