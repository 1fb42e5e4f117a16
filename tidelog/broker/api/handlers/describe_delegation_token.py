"""DescribeDelegationToken (key 41), versions 1-3: the delegation tokens that a client may describe (KIP-48).

Owners, requesters and renewers may describe a token. Others need Describe on the token, or DescribeTokens on
its owner (KIP-373). The response contains the HMACs, with which clients can log in.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.api.handlers.delegation_token_rules import REQUESTER_FROM_VERSION, allows_token_requests
from tidelog.broker.config.settings import BrokerSettings
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.cluster.delegation_tokens import parties
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from tidelog.protocol.metadata_records.delegation_token_record import DelegationTokenRecord
from tidelog.protocol.steps import Steps
from tidelog.security.delegation_token import token_hmac


class DescribeDelegationTokenHandler:
    """Returns tokens of the image."""

    def __init__(
        self, image: Callable[[], MetadataImage], config: BrokerSettings, authorizer: Authorizer
    ) -> None:
        self._image = image
        self._config = config
        self._authorizer = authorizer

    def handle(
        self, context: RequestContext, request: DescribeDelegationTokenRequest
    ) -> Steps[DescribeDelegationTokenResponse]:
        """Return the tokens of the requested owners, or of all; expired ones until they are removed."""
        if not allows_token_requests(self._config, context):
            return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
        secret_key = self._config.delegation_token_secret_key
        if not secret_key:
            return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
        requested: set[str] = set()
        for owner in request.owners or ():
            requested.add(f"{owner.principal_type}:{owner.principal_name}")
            yield None
        tokens = []
        for token in self._image().delegation_tokens.values() if request.owners != () else ():
            yield None
            is_requested = request.owners is None or not requested.isdisjoint(parties(token))
            if is_requested and self._may_describe(context, token):
                tokens.append(_token_entry(token, secret_key, context.header.api_version))
        return DescribeDelegationTokenResponse(tokens=tuple(tokens))

    def _may_describe(self, context: RequestContext, token: DelegationTokenRecord) -> bool:
        if context.principal in parties(token):
            return True
        is_authorized = self._authorizer.is_authorized
        return is_authorized(
            context, AclOperation.DESCRIBE, AclResourceType.DELEGATION_TOKEN, token.token_id
        ) or is_authorized(context, AclOperation.DESCRIBE_TOKENS, AclResourceType.USER, token.owner)


def _token_entry(token: DelegationTokenRecord, secret_key: str, version: int) -> DescribedDelegationToken:
    kind, _, name = token.owner.partition(":")
    requester = token.requester if version >= REQUESTER_FROM_VERSION else ""
    requester_kind, _, requester_name = requester.partition(":")
    return DescribedDelegationToken(
        principal_type=kind,
        principal_name=name,
        token_requester_principal_type=requester_kind,
        token_requester_principal_name=requester_name,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=token_hmac(secret_key, token.token_id),
        renewers=tuple(_renewer(each) for each in token.renewers),
    )


def _renewer(principal: str) -> DescribedDelegationTokenRenewer:
    kind, _, name = principal.partition(":")
    return DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
