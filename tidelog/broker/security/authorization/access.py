"""The checks that handlers share: require one access, or select the names that a client may access."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Final

from tidelog.broker.security.authorization.authorizer import Authorizer, Requester
from tidelog.cluster.acls import CLUSTER_NAME
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.steps import Steps

AUTHORIZATION_ERRORS: Final[Mapping[AclResourceType, ErrorCode]] = {
    AclResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    AclResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    AclResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    AclResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    AclResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}


class _EveryName:
    """The names that a client may access without an authorizer."""

    def __contains__(self, name: object) -> bool:
        return True


_EVERY_NAME: Final = _EveryName()


def require_access(
    authorizer: Authorizer,
    requester: Requester,
    operation: AclOperation,
    resource_type: AclResourceType,
    name: str,
) -> None:
    """Raise KafkaError with the error of the type of resource if the client may not access it."""
    if not authorizer.is_authorized(requester, operation, resource_type, name):
        code = AUTHORIZATION_ERRORS[resource_type]
        raise KafkaError(code, code.text)


def may_access_cluster(
    authorizer: Authorizer, requester: Requester, operation: AclOperation, *, logs_denial: bool = True
) -> bool:
    """Return whether the client may perform an operation on the cluster."""
    return authorizer.is_authorized(
        requester, operation, AclResourceType.CLUSTER, CLUSTER_NAME, logs_denial=logs_denial
    )


def accessible_names(
    authorizer: Authorizer,
    requester: Requester,
    resource: tuple[AclOperation, AclResourceType],
    names: Iterable[str],
    *,
    logs_denial: bool = True,
) -> Steps[Container[str]]:
    """Return those of `names` on which the client may perform the operation."""
    if not authorizer.is_enabled:
        return _EVERY_NAME
    operation, resource_type = resource
    decisions: dict[str, bool] = {}
    for name in names:
        if name not in decisions:
            decisions[name] = authorizer.is_authorized(
                requester, operation, resource_type, name, logs_denial=logs_denial
            )
        yield None
    return {name for name, is_allowed in decisions.items() if is_allowed}


def cluster_operations(authorizer: Authorizer, requester: Requester) -> int:
    """Return the bit field of operations on the cluster; 0 for a client that may not describe it."""
    if not may_access_cluster(authorizer, requester, AclOperation.DESCRIBE):
        return 0
    return authorizer.authorized_operations(requester, AclResourceType.CLUSTER, CLUSTER_NAME)
