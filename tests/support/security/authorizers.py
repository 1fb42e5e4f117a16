"""The authorizers of handlers under test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelog.broker.security.authorization.audit_log import AuditLog
from tidelog.broker.security.authorization.authorizer import AllowEverything
from tidelog.broker.security.authorization.standard_authorizer import StandardAuthorizer

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
