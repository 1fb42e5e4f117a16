"""CreateDelegationToken (key 38), versions 1-3, RenewDelegationToken and ExpireDelegationToken (keys 39 and
40), versions 1-2: changes of delegation tokens (KIP-48), which the active controller makes.

The broker that gets a request checks the connection of the client, because the controller does not know it.
The controller checks requests, too: clients may also send them to its own listeners.
"""

from __future__ import annotations

from typing import Protocol

from tidelog.broker.api.handlers.delegation_token_rules import (
    NO_TIMESTAMP,
    allows_token_requests,
    creation_error,
    owner_of,
    refused_creation,
)
from tidelog.broker.channels.forwarding import Forwarder
from tidelog.broker.config.settings import BrokerSettings
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.cluster.delegation_tokens import USER_TYPE
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from tidelog.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from tidelog.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


class TokenChanges(Protocol):
    """Makes changes that are allowed: on a broker by forwarding them, on a controller by commands."""

    async def create(
        self, context: RequestContext, request: CreateDelegationTokenRequest
    ) -> CreateDelegationTokenResponse:
        """Return the new token when its record is durable."""

    async def renew(
        self, context: RequestContext, request: RenewDelegationTokenRequest
    ) -> RenewDelegationTokenResponse:
        """Return the new expiration when its record is durable."""

    async def expire(
        self, context: RequestContext, request: ExpireDelegationTokenRequest
    ) -> ExpireDelegationTokenResponse:
        """Return the new expiration when its record, or the removal of the token, is durable."""


class DelegationTokenHandlers:
    """Passes the requests that the client may send to `changes`."""

    def __init__(self, config: BrokerSettings, authorizer: Authorizer, changes: TokenChanges) -> None:
        self._config = config
        self._authorizer = authorizer
        self._changes = changes

    async def create(
        self, context: RequestContext, request: CreateDelegationTokenRequest
    ) -> CreateDelegationTokenResponse:
        """Return the new token, or the response to a request that is not allowed."""
        refusal = refused_creation(self._config, self._authorizer, context, request)
        return await self._changes.create(context, request) if refusal is None else refusal

    async def renew(
        self, context: RequestContext, request: RenewDelegationTokenRequest
    ) -> RenewDelegationTokenResponse:
        """Return the new expiration, or the response to a request that is not allowed."""
        if allows_token_requests(self._config, context):
            return await self._changes.renew(context, request)
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NO_TIMESTAMP)

    async def expire(
        self, context: RequestContext, request: ExpireDelegationTokenRequest
    ) -> ExpireDelegationTokenResponse:
        """Return the new expiration, or the response to a request that is not allowed."""
        if allows_token_requests(self._config, context):
            return await self._changes.expire(context, request)
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NO_TIMESTAMP)


class ForwardedTokenChanges:
    """Implements TokenChanges on a broker: forwards the requests to the active controller."""

    def __init__(self, forwarder: Forwarder) -> None:
        self._forwarder = forwarder

    async def create(
        self, context: RequestContext, request: CreateDelegationTokenRequest
    ) -> CreateDelegationTokenResponse:
        """Return the controller's response; INVALID_PRINCIPAL_TYPE if a renewer is not a user."""
        if any(each.principal_type != USER_TYPE for each in request.renewers):
            return creation_error(context, owner_of(context, request), ErrorCode.INVALID_PRINCIPAL_TYPE)
        return await self._forwarder.forward(context, request, CreateDelegationTokenResponse)

    async def renew(
        self, context: RequestContext, request: RenewDelegationTokenRequest
    ) -> RenewDelegationTokenResponse:
        """Return the controller's response."""
        return await self._forwarder.forward(context, request, RenewDelegationTokenResponse)

    async def expire(
        self, context: RequestContext, request: ExpireDelegationTokenRequest
    ) -> ExpireDelegationTokenResponse:
        """Return the controller's response."""
        return await self._forwarder.forward(context, request, ExpireDelegationTokenResponse)
