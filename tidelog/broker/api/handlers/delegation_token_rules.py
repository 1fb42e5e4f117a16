"""The checks of requests about delegation tokens, which brokers and controllers make.

A client that has authenticated with a token may not create or change tokens, so that a token cannot outlive
its maximum time. A client without authentication may not use tokens at all.

Source: KIP-48, KIP-373; KafkaApis and ControllerApis of Apache Kafka 4.3. Difference: tokens are created only
for owners of the type User, because a client with a token always has a principal of this type.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tidelog.broker.config.listeners import SecurityProtocol
from tidelog.broker.config.settings import BrokerSettings
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.cluster.delegation_tokens import USER_TYPE
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

RENEWERS_MAX: Final = 1000
"""How many renewers a token can have, because all nodes keep them in memory; Kafka has no limit."""
NO_TIMESTAMP: Final = -1
"""The timestamps in the response to a request that is not allowed."""
REQUESTER_FROM_VERSION: Final = 3
"""The first version whose responses have the requester of a token besides its owner (KIP-373)."""
_ANONYMOUS: Final = "User:ANONYMOUS"


def allows_token_requests(config: BrokerSettings, context: RequestContext) -> bool:
    """Return whether the client may send requests about tokens.

    The broker has checked the connection of the client of a forwarded request.
    """
    if context.client.is_token_authenticated:
        return False
    if context.is_forwarded:
        return True
    protocol = config.security_protocol(context.listener)
    if protocol is SecurityProtocol.SSL:
        return context.principal != _ANONYMOUS
    return protocol is not SecurityProtocol.PLAINTEXT


def owner_of(context: RequestContext, request: CreateDelegationTokenRequest) -> str:
    """Return the owner of the requested token as type:name, by default the client."""
    if not request.owner_principal_name:
        return context.principal
    return f"{request.owner_principal_type or ''}:{request.owner_principal_name}"


def refused_creation(
    config: BrokerSettings,
    authorizer: Authorizer,
    context: RequestContext,
    request: CreateDelegationTokenRequest,
) -> CreateDelegationTokenResponse | None:
    """Return the response to a request that is not allowed; None if it is.

    A client needs no permission for tokens of its own.
    """
    owner = owner_of(context, request)
    if not allows_token_requests(config, context):
        return creation_error(context, owner, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if len(request.renewers) > RENEWERS_MAX:
        return creation_error(context, owner, ErrorCode.INVALID_REQUEST)
    if owner != context.principal and not authorizer.is_authorized(
        context, AclOperation.CREATE_TOKENS, AclResourceType.USER, owner
    ):
        return creation_error(context, owner, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    # A broker of Kafka can forward requests of clients whose principals have other types.
    if owner.partition(":")[0] != USER_TYPE:
        return creation_error(context, owner, ErrorCode.INVALID_PRINCIPAL_TYPE)
    return None


def creation_error(context: RequestContext, owner: str, code: ErrorCode) -> CreateDelegationTokenResponse:
    """Return the response to CreateDelegationToken with an error."""
    kind, _, name = owner.partition(":")
    requester_kind, _, requester_name = context.principal.partition(":")
    response = CreateDelegationTokenResponse(
        error_code=code,
        principal_type=kind,
        principal_name=name,
        token_requester_principal_type=requester_kind,
        token_requester_principal_name=requester_name,
        issue_timestamp_ms=NO_TIMESTAMP,
        expiry_timestamp_ms=NO_TIMESTAMP,
        max_timestamp_ms=NO_TIMESTAMP,
    )
    return in_version(response, context.header.api_version)


def in_version(response: CreateDelegationTokenResponse, version: int) -> CreateDelegationTokenResponse:
    """Return the response without the requester if the version lacks it."""
    if version >= REQUESTER_FROM_VERSION:
        return response
    return replace(response, token_requester_principal_type="", token_requester_principal_name="")
