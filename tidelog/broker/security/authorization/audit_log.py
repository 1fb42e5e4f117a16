"""The audit log of authorization, `kafka.authorizer.logger`: denied accesses at INFO, allowed ones at DEBUG.

Decisions that only select what a client sees are logged at TRACE. The wording is Kafka's.
Source: StandardAuthorizerData of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
from typing import Final

from tidelog.broker.security.authorization.authorizer import Requester
from tidelog.protocol.access_control import AclOperation, AclResourceType, PatternType, PermissionType
from tidelog.protocol.metadata_records.access_control_entry_record import AccessControlEntryRecord
from tidelog.protocol.registry import APIS

audit_logger = logging.getLogger("kafka.authorizer.logger")

NAME_MAX: Final = 255
"""The number of characters of a name that are logged; clients may send much longer names."""
_RESOURCE_NAMES: Final = {
    AclResourceType.TOPIC: "Topic",
    AclResourceType.GROUP: "Group",
    AclResourceType.CLUSTER: "Cluster",
    AclResourceType.TRANSACTIONAL_ID: "TransactionalId",
    AclResourceType.DELEGATION_TOKEN: "DelegationToken",
    AclResourceType.USER: "User",
}


def log_decision(
    requester: Requester,
    operation: AclOperation,
    resource: tuple[AclResourceType, str],
    *,
    is_allowed: bool,
    rule: str,
    level: int,
) -> None:
    """Log one decision, and the rule on which it is based."""
    resource_type, name = resource
    audit_logger.log(
        level,
        "Principal = %s is %s operation = %s from host = %s on resource = %s:LITERAL:%s for request = %s "
        "with resourceRefCount = 1 based on rule %s",
        requester.principal,
        "Allowed" if is_allowed else "Denied",
        operation.name,
        requester.client_address,
        _RESOURCE_NAMES[resource_type],
        name[:NAME_MAX],
        APIS[requester.header.api_key].name,
        rule,
    )


def entry_text(entry: AccessControlEntryRecord) -> str:
    """Return the description of a rule that is an access control entry."""
    return (
        f"MatchingAcl(acl=StandardAcl(resourceType={_name(AclResourceType, entry.resource_type)}, "
        f"resourceName={entry.resource_name}, patternType={_name(PatternType, entry.pattern_type)}, "
        f"principal={entry.principal}, host={entry.host}, operation={_name(AclOperation, entry.operation)}, "
        f"permissionType={_name(PermissionType, entry.permission_type)}))"
    )


def _name(
    enumeration: type[AclResourceType | PatternType | AclOperation | PermissionType], value: int
) -> str:
    try:
        return enumeration(value).name
    except ValueError:
        return "UNKNOWN"
