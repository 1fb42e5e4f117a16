"""The connections on which requests about delegation tokens are allowed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.messages.request_contexts import request_context
from tidelog.broker.api.handlers.delegation_token_rules import allows_token_requests, refused_creation
from tidelog.broker.config.settings import BrokerSettings
from tidelog.broker.network.connected_client import ConnectedClient
from tidelog.broker.security.authorization.authorizer import AllowEverything
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.create_delegation_token import CreateDelegationTokenRequest

CONFIG = BrokerSettings(
    {
        "node.id": "1",
        "listener.security.protocol.map": "A:PLAINTEXT,B:SSL,C:SASL_PLAINTEXT,D:SASL_SSL",
    }
)
ANONYMOUS, ALICE = "User:ANONYMOUS", "User:alice"


def allows(
    listener: str, principal: str = ALICE, *, is_by_token: bool = False, is_forwarded: bool = False
) -> bool:
    context = replace(
        request_context(listener=listener),
        principal=principal,
        client=ConnectedClient(is_token_authenticated=is_by_token),
        is_forwarded=is_forwarded,
    )
    return allows_token_requests(CONFIG, context)


@pytest.mark.parametrize(
    ("listener", "principal", "expected"),
    [
        ("A", ANONYMOUS, False),
        ("A", ALICE, False),
        ("B", ANONYMOUS, False),
        ("B", ALICE, True),
        ("C", ALICE, True),
        ("D", ALICE, True),
    ],
)
def test_a_client_must_have_authenticated(listener: str, principal: str, expected: bool) -> None:
    assert allows(listener, principal) is expected


@pytest.mark.parametrize("listener", ["A", "B", "C", "D"])
def test_a_client_authenticated_by_a_token_is_refused(listener: str) -> None:
    assert not allows(listener, is_by_token=True)
    assert not allows(listener, is_by_token=True, is_forwarded=True)


def test_a_forwarded_request_was_checked_by_the_broker() -> None:
    assert allows("A", ANONYMOUS, is_forwarded=True)


def test_a_forwarded_client_that_is_no_user_gets_no_token_of_its_own() -> None:
    context = replace(request_context(), principal="Group:admins", is_forwarded=True)
    refused = refused_creation(CONFIG, AllowEverything(), context, CreateDelegationTokenRequest())
    assert refused is not None and refused.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
