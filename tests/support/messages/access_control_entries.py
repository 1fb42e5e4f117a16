"""ACL entries and clients for tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from tidelog.protocol.access_control import AclOperation, AclResourceType, PatternType, PermissionType
from tidelog.protocol.framing import RequestHeader
from tidelog.protocol.metadata_records.access_control_entry_record import AccessControlEntryRecord
from tidelog.protocol.registry import ApiKey

PRODUCE_HEADER = RequestHeader(ApiKey.PRODUCE, 9, 1, "test")


@dataclass
class Client:
    """A client that sends a request."""

    principal: str = "User:alice"
    client_address: str = "10.0.0.1"
    header: RequestHeader = PRODUCE_HEADER


def entry(
    number: int,
    *,
    name: str = "orders",
    operation: AclOperation = AclOperation.READ,
    principal: str = "User:alice",
    host: str = "*",
    pattern_type: PatternType = PatternType.LITERAL,
    permission: PermissionType = PermissionType.ALLOW,
    resource_type: AclResourceType = AclResourceType.TOPIC,
) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=UUID(int=number + 1),
        resource_type=resource_type,
        resource_name=name,
        pattern_type=pattern_type,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )


def by_id(entries: Iterable[AccessControlEntryRecord]) -> Mapping[UUID, AccessControlEntryRecord]:
    return {each.id: each for each in entries}
