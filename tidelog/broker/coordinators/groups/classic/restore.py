"""Restores a group from its last record in the log: empty, or stable with its members."""

from __future__ import annotations

from tidelog.broker.coordinators.groups.classic.group import Group
from tidelog.broker.coordinators.groups.classic.member import Client, Member
from tidelog.protocol.coordinator_records.group_metadata import GroupMetadataValue, MemberMetadata
from tidelog.protocol.messages.join_group import JoinGroupRequestProtocol

UNKNOWN_TIMESTAMP = -1
UNKNOWN_TIMEOUT = -1


def restore(group: Group, record: GroupMetadataValue) -> None:
    """Restore the generation and the members of `group` from its last record in the log.

    Records of old versions lack
    the timestamp of the state; then it is unknown (KAFKA-8069).
    """
    stamp = record.current_state_timestamp
    members = [_member(entry, record) for entry in record.members]
    group.restore(record, members, None if stamp == UNKNOWN_TIMESTAMP else stamp)


def _member(entry: MemberMetadata, record: GroupMetadataValue) -> Member:
    known_timeout = entry.rebalance_timeout != UNKNOWN_TIMEOUT
    return Member(
        member_id=entry.member_id,
        group_instance_id=entry.group_instance_id,
        client=Client(entry.client_id, entry.client_host),
        rebalance_timeout_ms=entry.rebalance_timeout if known_timeout else entry.session_timeout,
        session_timeout_ms=entry.session_timeout,
        protocol_type=record.protocol_type,
        protocols=(JoinGroupRequestProtocol(name=record.protocol or "", metadata=entry.subscription),),
        assignment=entry.assignment,
    )
