"""Finds or creates the member that joins a consumer group.

Source: GroupMetadataManager.getOrMaybeSubscribeDynamicConsumerGroupMember, the same for static members, and
replaceMember of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from tidelog.broker.coordinators.groups.consumer.config import ConsumerGroupSettings
from tidelog.broker.coordinators.groups.consumer.group import ConsumerGroup
from tidelog.broker.coordinators.groups.consumer.member import STATIC_LEAVE_EPOCH, ConsumerMember
from tidelog.broker.coordinators.groups.consumer.member_size import size_of
from tidelog.broker.coordinators.groups.consumer.records import (
    current_assignment,
    member_metadata,
    member_tombstones,
    target_assignment,
)
from tidelog.broker.coordinators.groups.consumer.timers import MemberTimers
from tidelog.broker.coordinators.groups.members.lookup import check_room
from tidelog.broker.coordinators.groups.members.topic_names import NamesOfCommand
from tidelog.broker.coordinators.groups.records.coordinator_records import CoordinatorRecord
from tidelog.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)


class MemberLookup:
    """Returns the member that joins."""

    def __init__(self, settings: ConsumerGroupSettings, timers: MemberTimers, names: NamesOfCommand) -> None:
        self._settings = settings
        self._names = names
        self._timers = timers

    def check_room(self, group: ConsumerGroup, member_id: str) -> None:
        """Raise GROUP_MAX_SIZE_REACHED if the group has no room for a new member."""
        members_max = self._settings.broker.group_consumer_max_size
        check_room(group.members, member_id, members_max, "consumer")

    def check_memory(self, group: ConsumerGroup, previous: ConsumerMember, member: ConsumerMember) -> None:
        """Check that there is memory for `member` in place of `previous`.

        Errors: KafkaError GROUP_MAX_SIZE_REACHED or COORDINATOR_NOT_AVAILABLE.
        """
        if previous is member or previous == member:
            return
        is_new = previous.member_id not in group.members
        group.memory.check(size_of(member) - (0 if is_new else size_of(previous)))

    def join(
        self,
        group: ConsumerGroup,
        member_id: str,
        instance_id: str | None,
        records: list[CoordinatorRecord],
        *,
        is_classic: bool,
    ) -> ConsumerMember:
        """Return the member with this id, or a new one; a static member replaces its earlier instance.

        Raise UNRELEASED_INSTANCE_ID if the earlier instance has not left.
        """
        protocol = "classic" if is_classic else "consumer"
        text = "Group %s: member %s joins with the %s protocol"
        logger.info(text, group.group_id, member_id, protocol)
        existing = group.static_member(instance_id)
        if existing is None:
            return group.members.get(member_id) or ConsumerMember(member_id=member_id)
        if (
            not is_classic
            and not existing.uses_classic_protocol
            and existing.member_epoch != STATIC_LEAVE_EPOCH
        ):
            text = (
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the "
                f"instance id is owned by {existing.member_id} member."
            )
            raise KafkaError(ErrorCode.UNRELEASED_INSTANCE_ID, text)
        return self._replace(group, existing, member_id, records)

    def _replace(
        self,
        group: ConsumerGroup,
        existing: ConsumerMember,
        member_id: str,
        records: list[CoordinatorRecord],
    ) -> ConsumerMember:
        """Add the records by which a new member replaces `existing`."""
        member = replace(existing, member_id=member_id, member_epoch=0, previous_member_epoch=0)
        records += member_tombstones(group.group_id, existing.member_id)
        records.append(member_metadata(group.group_id, member))
        self._names.add(member.subscribed_topic_names)
        records.append(target_assignment(group.group_id, member_id, group.target_of(existing.member_id)))
        records.append(current_assignment(group.group_id, member))
        self._timers.cancel(group.group_id, existing.member_id)
        return member
