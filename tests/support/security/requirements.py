"""The operations that a request of each API requires."""

from __future__ import annotations

from tidelog.broker.api.handlers.registry import FORWARDED
from tidelog.broker.security.authorization.required_operations import (
    BROKER_OPERATIONS,
    CONTROLLER_OPERATIONS,
    Requirements,
)
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.registry import ApiKey

EVERYTHING = tuple((kind, AclOperation.ALL) for kind in tuple(AclResourceType)[1:5])


def requirements(key: ApiKey) -> Requirements:
    """Return the requirements of the broker, and those of the controller for a forwarded request."""
    of_broker = BROKER_OPERATIONS.get(key, ())
    is_forwarded = key in FORWARDED or key in (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS)
    return (*of_broker, *CONTROLLER_OPERATIONS[key]) if is_forwarded else of_broker
