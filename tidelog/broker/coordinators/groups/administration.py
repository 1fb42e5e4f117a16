"""ListGroups, DescribeGroups and DeleteGroups.

Source: GroupMetadataManager of Apache Kafka 4.3; KIP-518 (states filter), KIP-848 (types filter), KIP-1043
(an unknown group is an error from DescribeGroups 6 on, a dead group before).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from tidelog.broker.coordinators.groups.classic.group import Group
from tidelog.broker.coordinators.groups.classic.states import GroupState
from tidelog.broker.coordinators.groups.consumer.group import ConsumerGroupState
from tidelog.broker.coordinators.groups.offset_store import OffsetStore
from tidelog.broker.coordinators.groups.outcome import Writes
from tidelog.broker.coordinators.groups.records.coordinator_records import CoordinatorRecord
from tidelog.broker.coordinators.groups.records.offset_records import OffsetKey, offset_tombstone
from tidelog.broker.coordinators.groups.registry import GroupRegistry, OffsetGroup, tombstones_of
from tidelog.broker.coordinators.groups.share.group import ShareGroup, ShareGroupState
from tidelog.broker.coordinators.groups.streams.group import StreamsGroupState
from tidelog.broker.coordinators.shared.outcome import Outcome
from tidelog.protocol.errors import ErrorCode, KafkaError, shortened
from tidelog.protocol.messages.delete_groups import DeletableGroupResult
from tidelog.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from tidelog.protocol.messages.list_groups import ListedGroup
from tidelog.protocol.steps import Steps, map_items

CLASSIC_GROUP_TYPE = "classic"
CONSUMER_GROUP_TYPE = CONSUMER_PROTOCOL_TYPE = "consumer"
SHARE_GROUP_TYPE = SHARE_PROTOCOL_TYPE = "share"
STREAMS_GROUP_TYPE = STREAMS_PROTOCOL_TYPE = "streams"
NOT_FOUND_FROM_VERSION = 6
_DELETABLE: Final = (
    GroupState.EMPTY,
    ConsumerGroupState.EMPTY,
    ShareGroupState.EMPTY,
    StreamsGroupState.EMPTY,
)


class Administration:
    """The admin requests for groups."""

    def __init__(self, groups: GroupRegistry, offsets: OffsetStore) -> None:
        self._groups = groups
        self._offsets = offsets

    def list_groups(
        self, state_filter: Collection[str], type_filter: Collection[str]
    ) -> Steps[list[ListedGroup]]:
        """Return the groups that both filters select; `filter_of` returns a filter."""
        groups = []
        if not type_filter or CLASSIC_GROUP_TYPE in type_filter:
            for group in list(self._groups):
                yield None
                groups.append(_listed(group, group.protocol_type or "", CLASSIC_GROUP_TYPE))
        if not type_filter or CONSUMER_GROUP_TYPE in type_filter:
            for consumer_group in self._groups.consumers:
                yield None
                groups.append(_listed(consumer_group, CONSUMER_PROTOCOL_TYPE, CONSUMER_GROUP_TYPE))
        if not type_filter or SHARE_GROUP_TYPE in type_filter:
            for share_group in self._groups.shares:
                yield None
                groups.append(_listed(share_group, SHARE_PROTOCOL_TYPE, SHARE_GROUP_TYPE))
        if not type_filter or STREAMS_GROUP_TYPE in type_filter:
            for streams_group in self._groups.streams:
                yield None
                groups.append(_listed(streams_group, STREAMS_PROTOCOL_TYPE, STREAMS_GROUP_TYPE))
        return [each for each in groups if not state_filter or _filter_name(each) in state_filter]

    def describe_group(self, group_id: str, version: int) -> DescribedGroup:
        """Return one group with its members; metadata and assignments only if it is stable."""
        group = self._groups.get(group_id)
        if group is None:
            if version < NOT_FOUND_FROM_VERSION:
                return DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
            return DescribedGroup(
                group_id=group_id,
                group_state=GroupState.DEAD.value,
                error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                error_message=shortened(self._not_a_classic_group(group_id)),
            )
        is_stable = group.state is GroupState.STABLE
        return DescribedGroup(
            group_id=group_id,
            group_state=group.state.value,
            protocol_type=group.protocol_type or "",
            protocol_data=(group.protocol_name or "") if is_stable else "",
            members=_describe_members(group, group.protocol_name if is_stable else None),
        )

    def _not_a_classic_group(self, group_id: str) -> str:
        if group_id in self._groups:
            return f"Group {group_id} is not a classic group."
        return f"Group {group_id} not found."

    def delete_groups(self, group_ids: Iterable[str]) -> Outcome[list[DeletableGroupResult]]:
        """Delete groups without members, with all their offsets."""
        records: list[CoordinatorRecord] = []
        results = []
        for group_id in dict.fromkeys(group_ids):
            error = ErrorCode.NONE
            try:
                group = self._groups.require(group_id)
                if group.state not in _DELETABLE:
                    raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"group {group_id} has members")
            except KafkaError as failure:
                error = failure.code
            else:
                records += [offset_tombstone(*key) for key in self._offset_keys(group_id)]
                records += tombstones_of(group)
            results.append(DeletableGroupResult(group_id=group_id, error_code=error))
        return Outcome(results, Writes(tuple(records), may_split=True))

    def _offset_keys(self, group_id: str) -> list[OffsetKey]:
        keys = {
            OffsetKey(group_id, topic, partition): None
            for topic, partitions in self._offsets.latest.offsets_of_group(group_id).items()
            for partition in partitions
        }
        return list(keys | dict.fromkeys(self._offsets.keys_in_transactions(group_id)))


def filter_of(names: Iterable[str]) -> Steps[frozenset[str]]:
    """Return the filter that selects these states or types, ignoring case; without a name it selects all."""
    return frozenset((yield from map_items(lambda name: name.strip().lower(), names)))


def _filter_name(group: ListedGroup) -> str:
    """Return the state of a group as filters name it: `not_ready` for NotReady, as in Kafka."""
    not_ready = StreamsGroupState.NOT_READY
    return not_ready.metric_label if group.group_state == not_ready.value else group.group_state.lower()


def _listed(group: OffsetGroup | ShareGroup, protocol_type: str, group_type: str) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=protocol_type,
        group_state=group.state.value,
        group_type=group_type,
    )


def _describe_members(group: Group, protocol_name: str | None) -> tuple[DescribedGroupMember, ...]:
    return tuple(
        DescribedGroupMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client.client_id,
            client_host=member.client.host,
            member_metadata=b"" if protocol_name is None else member.metadata(protocol_name),
            member_assignment=member.assignment,
        )
        for member in group.members.values()
    )
