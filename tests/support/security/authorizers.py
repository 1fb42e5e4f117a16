"""The authorizers of handlers under test."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Final

from tidelog.broker.security.authorization.audit_log import AuditLog
from tidelog.broker.security.authorization.authorizer import AllowEverything, Requester
from tidelog.broker.security.authorization.standard_authorizer import StandardAuthorizer
from tidelog.protocol.access_control import AclOperation, AclResourceType

ALLOW_EVERYTHING: Final = AllowEverything()


def acl_authorizer(
    super_users: frozenset[str] = frozenset(),
    *,
    allows_without_entry: bool = False,
    is_loaded: Callable[[], bool] = lambda: True,
    audit: AuditLog | None = None,
) -> StandardAuthorizer:
    """Return an authorizer without entries, whose audit log has no limit unless `audit` is given."""
    return StandardAuthorizer(
        super_users,
        allows_without_entry=allows_without_entry,
        is_loaded=is_loaded,
        audit=audit or AuditLog(lambda *_: None, -1),
    )


class DenyingAuthorizer(AllowEverything):
    """Denies the resources with the names in `denied`, which a test may change."""

    is_enabled = True

    def __init__(self, denied: Container[str]) -> None:
        self._denied = denied

    def is_authorized(
        self,
        requester: Requester,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
        *,
        logs_denial: bool = True,
    ) -> bool:
        """Return whether the resource is not denied."""
        return name not in self._denied
