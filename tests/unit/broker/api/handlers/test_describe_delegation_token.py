"""DescribeDelegationToken: the tokens in the response, and nodes without a secret key."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.messages.request_contexts import over_the_wire, request_context
from tests.support.metadata.images import image_after_records, image_with_brokers
from tests.support.security.authorizers import acl_authorizer
from tidelog.broker.api.handlers.describe_delegation_token import DescribeDelegationTokenHandler
from tidelog.broker.config.settings import BrokerSettings
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.describe_delegation_token import (
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from tidelog.protocol.metadata_records.delegation_token_record import DelegationTokenRecord
from tidelog.protocol.steps import run_steps
from tidelog.security.delegation_token import token_hmac

KEY = "key"
OF_ALICE = DelegationTokenRecord(
    token_id="1",
    owner="User:alice",
    requester="User:carol",
    renewers=("User:bob",),
    issue_timestamp=1,
    max_timestamp=3,
    expiration_timestamp=2,
)
OF_BOB = DelegationTokenRecord(token_id="2", owner="User:bob", requester="User:bob")


def describe_tokens(
    principal: str, *owners: str, version: int = 3, key: str | None = KEY, is_for_all: bool = True
) -> DescribeDelegationTokenResponse:
    """Describe tokens without any access control entry; `is_for_all`: no owners means all."""
    image = image_after_records([OF_ALICE, OF_BOB], image_with_brokers(1))
    settings = {"node.id": "1", "listener.security.protocol.map": "SASL:SASL_SSL"}
    config = BrokerSettings(settings if key is None else {**settings, "delegation.token.secret.key": key})
    authorizer = acl_authorizer()
    handler = DescribeDelegationTokenHandler(lambda: image, config, authorizer)
    requested = tuple(
        DescribeDelegationTokenOwner(principal_type="User", principal_name=owner) for owner in owners
    )
    request = DescribeDelegationTokenRequest(owners=requested or (None if is_for_all else ()))
    context = replace(request_context(version, listener="SASL"), principal=principal)
    return over_the_wire(run_steps(handler.handle(context, request)), version)


def ids(response: DescribeDelegationTokenResponse) -> list[str]:
    assert response.error_code == ErrorCode.NONE
    return [token.token_id for token in response.tokens]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_token_is_described_in_every_version(version: int) -> None:
    (token,) = describe_tokens("User:alice", version=version).tokens
    assert (token.token_id, token.hmac) == ("1", token_hmac(KEY, "1"))
    assert (token.issue_timestamp, token.expiry_timestamp, token.max_timestamp) == (1, 2, 3)
    assert (token.principal_type, token.principal_name) == ("User", "alice")
    assert token.renewers == (DescribedDelegationTokenRenewer(principal_type="User", principal_name="bob"),)
    assert token.token_requester_principal_name == ("carol" if version == 3 else "")


@pytest.mark.parametrize(
    ("principal", "expected"),
    [("User:alice", ["1"]), ("User:bob", ["1", "2"]), ("User:carol", ["1"]), ("User:eve", [])],
)
def test_owners_requesters_and_renewers_see_a_token(principal: str, expected: list[str]) -> None:
    assert ids(describe_tokens(principal)) == expected


def test_only_tokens_of_the_requested_owners_are_described() -> None:
    assert ids(describe_tokens("User:bob", "alice")) == ["1"]
    assert ids(describe_tokens("User:bob", "alice", "bob")) == ["1", "2"]
    assert ids(describe_tokens("User:bob", "eve")) == []


def test_a_request_with_an_empty_list_of_owners_describes_no_token() -> None:
    assert ids(describe_tokens("User:bob", is_for_all=False)) == []


@pytest.mark.parametrize("key", [None, ""])
def test_tokens_are_disabled_without_a_secret_key(key: str | None) -> None:
    response = describe_tokens("User:alice", key=key)
    assert (response.error_code, response.tokens) == (ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, ())
