"""The audit log of authorization, `kafka.authorizer.logger`: denied accesses at INFO, allowed ones at DEBUG.

Decisions that only select what a client sees are logged at TRACE. The wording is Kafka's. Denied accesses of
a principal beyond a limit are counted, and their number is one line, so that a client cannot fill a disk.

Bounds: `PRINCIPALS_MAX` principals have a limit of their own, and all others share one.
Source: StandardAuthorizerData of Apache Kafka 4.3; the limit is Tidelog's own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from tidelog.broker.security.authorization.authorizer import Requester
from tidelog.protocol.access_control import AclOperation, AclResourceType, PatternType, PermissionType
from tidelog.protocol.metadata_records.access_control_entry_record import AccessControlEntryRecord
from tidelog.protocol.registry import APIS

audit_logger = logging.getLogger("kafka.authorizer.logger")

NAME_MAX: Final = 255
"""The number of characters of a name that are logged; clients may send much longer names."""
PERIOD_S: Final = 10
"""The time to which the limit applies."""
PRINCIPALS_MAX: Final = 1_000
_OTHERS: Final = "(others)"
_RESOURCE_NAMES: Final = {
    AclResourceType.TOPIC: "Topic",
    AclResourceType.GROUP: "Group",
    AclResourceType.CLUSTER: "Cluster",
    AclResourceType.TRANSACTIONAL_ID: "TransactionalId",
    AclResourceType.DELEGATION_TOKEN: "DelegationToken",
    AclResourceType.USER: "User",
}


class _Window:
    """The denied accesses of a principal since its first one, for at most `PERIOD_S`."""

    __slots__ = ("lines", "suppressed")

    def __init__(self) -> None:
        self.lines = 0
        self.suppressed = 0


class AuditLog:
    """Writes decisions to the audit log.

    `lines_max` limits the lines for denied accesses of a principal in `PERIOD_S`; -1 means no limit.
    `call_later` calls a function after some seconds.
    """

    def __init__(self, call_later: Callable[[float, Callable[[], None]], object], lines_max: int) -> None:
        self._call_later = call_later
        self._lines_max = lines_max
        self._windows: dict[str, _Window] = {}

    def record(
        self,
        requester: Requester,
        operation: AclOperation,
        resource: tuple[AclResourceType, str],
        *,
        is_allowed: bool,
        rule: str,
        level: int,
    ) -> None:
        """Log one decision, and the rule on which it is based, within the limit."""
        if level >= logging.INFO and not self._admits(requester.principal):
            return
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

    def _admits(self, principal: str) -> bool:
        if self._lines_max < 0:
            return True
        window = self._windows.get(principal)
        if window is None and len(self._windows) >= PRINCIPALS_MAX:
            principal = _OTHERS
            window = self._windows.get(principal)
        if window is None:
            window = self._windows[principal] = _Window()
            self._call_later(PERIOD_S, partial(self._end, principal))
        if window.lines >= self._lines_max:
            window.suppressed += 1
            return False
        window.lines += 1
        return True

    def _end(self, principal: str) -> None:
        window = self._windows.pop(principal)
        if window.suppressed:
            text = "Principal = %s is Denied %d more operations in the last %d s, which are not logged"
            audit_logger.info(text, principal, window.suppressed, PERIOD_S)


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
