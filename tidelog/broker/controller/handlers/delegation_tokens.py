"""The commands of CreateDelegationToken, RenewDelegationToken and ExpireDelegationToken (KIP-48).

`tidelog.broker.api.handlers.delegation_token_changes` checks the requests before.
"""

from __future__ import annotations

from tidelog.base.randomness import Randomness
from tidelog.broker.api.handlers.delegation_token_rules import in_version, owner_of
from tidelog.broker.config.projection import projection
from tidelog.broker.config.settings import BrokerSettings
from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.network.request_context import RequestContext
from tidelog.cluster.controller.delegation_tokens import DelegationTokens, TokenRequester, TokenSettings
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


class TokenCommands:
    """Implements TokenChanges on a controller: submits commands that change the metadata."""

    def __init__(self, store: MetadataStore, config: BrokerSettings, randomness: Randomness) -> None:
        self._store = store
        self._tokens = DelegationTokens(projection(config, TokenSettings), randomness)

    async def create(
        self, context: RequestContext, request: CreateDelegationTokenRequest
    ) -> CreateDelegationTokenResponse:
        """Return the new token when its record is durable."""
        requester, owner = _requester(context), owner_of(context, request)
        response = await self._store.submit(
            lambda image: self._tokens.create(image, requester, owner, request)
        )
        return in_version(response, context.header.api_version)

    async def renew(
        self, context: RequestContext, request: RenewDelegationTokenRequest
    ) -> RenewDelegationTokenResponse:
        """Return the new expiration when its record is durable."""
        requester = _requester(context)
        return await self._store.submit(lambda image: self._tokens.renew(image, requester, request))

    async def expire(
        self, context: RequestContext, request: ExpireDelegationTokenRequest
    ) -> ExpireDelegationTokenResponse:
        """Return the new expiration when its record, or the removal of the token, is durable."""
        requester = _requester(context)
        return await self._store.submit(lambda image: self._tokens.expire(image, requester, request))


def _requester(context: RequestContext) -> TokenRequester:
    return TokenRequester(context.principal, context.now_ms)
