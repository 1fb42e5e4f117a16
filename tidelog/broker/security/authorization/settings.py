"""Creates the authorizer that the configuration of a node selects.

Source: StandardAuthorizer.configure of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.network.request_context import NODE_PRINCIPAL
from tidelog.broker.security.authorization.audit_log import AuditLog
from tidelog.broker.security.authorization.standard_authorizer import StandardAuthorizer

_SEPARATOR: Final = ";"


def standard_authorizer(
    config: BrokerConfig,
    is_loaded: Callable[[], bool],
    call_later: Callable[[float, Callable[[], None]], object],
) -> StandardAuthorizer | None:
    """Return the authorizer; None without authorizer.class.name.

    Requests of this node to itself are always allowed.
    """
    if not config.authorizer_class_name:
        return None
    return StandardAuthorizer(
        super_users(config.super_users) | {NODE_PRINCIPAL},
        allows_without_entry=config.allow_everyone_if_no_acl_found,
        is_loaded=is_loaded,
        audit=AuditLog(call_later, config.max_audit_lines_per_principal),
    )


def super_users(text: str) -> frozenset[str]:
    """Return the principals of super.users, which are separated by semicolons."""
    return frozenset(user for each in text.split(_SEPARATOR) if (user := each.strip()))
