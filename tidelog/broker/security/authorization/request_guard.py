"""Checks what an API requires for a whole request before its handler is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.security.authorization.access import require_access
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.broker.security.authorization.required_operations import (
    RequiredOperation,
    Requirements,
    Scope,
)
from tidelog.cluster.acls import CLUSTER_NAME
from tidelog.protocol.registry import ApiKey


class RequestGuard:
    """Guards the handlers of one kind of listener by its table of required operations."""

    def __init__(self, authorizer: Authorizer, operations: Mapping[ApiKey, Requirements]) -> None:
        self._authorizer = authorizer
        self._operations = operations

    def guard(
        self, key: ApiKey, handler: Callable[[RequestContext, Any], Any]
    ) -> Callable[[RequestContext, Any], Any]:
        """Return a handler that raises KafkaError for a request that the client may not send.

        Raise KeyError for an API that is not in the table.
        """
        requirements = [each for each in self._operations[key] if each.scope is Scope.REQUEST]
        if not requirements or not self._authorizer.is_enabled:
            return handler

        def check_and_handle(context: RequestContext, request: Any) -> Any:
            for requirement in requirements:
                self._check(context, request, requirement)
            return handler(context, request)

        return check_and_handle

    def _check(self, context: RequestContext, request: Any, requirement: RequiredOperation) -> None:
        if not requirement.lowest <= context.header.api_version <= requirement.highest:
            return
        name = getattr(request, requirement.name_field) if requirement.name_field else CLUSTER_NAME
        authorizer, resource_type = self._authorizer, requirement.resource_type
        alternative = requirement.alternative
        if alternative is not None and authorizer.is_authorized(
            context, alternative, resource_type, name, logs_denial=False
        ):
            return
        require_access(authorizer, context, requirement.operation, resource_type, name)
