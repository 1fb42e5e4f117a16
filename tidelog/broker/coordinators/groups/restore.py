"""Restores a group from its last record in the log: empty, or stable with its members."""

from __future__ import annotations

from tidelog.broker.coordinators.groups.group import Group
from tidelog.broker.coordinators.groups.member import Client, Member
from tidelog.broker.coordinators.groups.states import GroupState
from tidelog.protocol.coordinator_records.group_metadata import GroupMetadataValue, MemberMetadata
from tidelog.protocol.messages.join_group import JoinGroupRequestProtocol

UNKNOWN_TIMESTAMP = -1
UNKNOWN_TIMEOUT = -1


def restore(group: Group) -> None:
    """Restore the generation and the members of `group.persisted`.

    A group without a record has only offsets: it belongs to a simple consumer. Records of old versions lack
    the timestamp of the state; then it is unknown (KAFKA-8069).
    """
    persisted = group.persisted
    if persisted is None:
        return
    group.generation = persisted.generation
    group.protocol_name = persisted.protocol
    stamp = persisted.current_state_timestamp
    group.state_wall_ms = None if stamp == UNKNOWN_TIMESTAMP else stamp
    for entry in persisted.members:
        group.add(_member(entry, persisted))
    group.protocol_type = persisted.protocol_type or None
    if group.members:
        group.state = GroupState.STABLE
        if persisted.leader in group.members:
            group.leader_id = persisted.leader
    group.update_subscribed_topics()


def _member(entry: MemberMetadata, persisted: GroupMetadataValue) -> Member:
    known_timeout = entry.rebalance_timeout != UNKNOWN_TIMEOUT
    return Member(
        member_id=entry.member_id,
        group_instance_id=entry.group_instance_id,
        client=Client(entry.client_id, entry.client_host),
        rebalance_timeout_ms=entry.rebalance_timeout if known_timeout else entry.session_timeout,
        session_timeout_ms=entry.session_timeout,
        protocol_type=persisted.protocol_type,
        protocols=(JoinGroupRequestProtocol(name=persisted.protocol or "", metadata=entry.subscription),),
        assignment=entry.assignment,
    )
