"""The server's side of an OAUTHBEARER exchange."""

from __future__ import annotations

import pytest

from tidelog.security.authentication_error import AuthenticationError
from tidelog.security.oauthbearer.messages import FAILURE_ACKNOWLEDGEMENT, encode_client_first
from tidelog.security.oauthbearer.server import OAuthBearerServer, OAuthBearerState
from tidelog.security.oauthbearer.token import BearerToken, TokenError

GOOD, BAD = encode_client_first("good", {"traceId": "1"}), encode_client_first("bad", {})


def validate(value: str) -> BearerToken:
    if value != "good":
        raise TokenError("the reason for the log", scope=None)
    return BearerToken(value=value, principal="alice", expires_ms=1)


def failure(server: OAuthBearerServer, message: bytes) -> AuthenticationError:
    with pytest.raises(AuthenticationError) as raised:
        server.evaluate(message)
    assert server.state is OAuthBearerState.FAILED
    return raised.value


def test_a_valid_token_authenticates() -> None:
    server = OAuthBearerServer(validate)
    assert server.evaluate(GOOD) == b""
    assert server.state is OAuthBearerState.COMPLETE and server.token.principal == "alice"


def test_a_rejected_token_gets_a_reason_and_fails_with_the_acknowledgement() -> None:
    server = OAuthBearerServer(validate)
    assert server.evaluate(BAD) == b'{"status":"invalid_token"}'
    assert server.state is OAuthBearerState.REJECTED
    error = failure(server, FAILURE_ACKNOWLEDGEMENT)
    assert error.client_text == '{"status":"invalid_token"}' and str(error) == "the reason for the log"


def test_a_second_token_is_not_tested() -> None:
    server = OAuthBearerServer(validate)
    server.evaluate(BAD)
    assert failure(server, GOOD).client_text is None
    assert failure(server, GOOD).client_text is None


def test_an_acknowledgement_without_a_rejection_fails() -> None:
    assert failure(OAuthBearerServer(validate), FAILURE_ACKNOWLEDGEMENT).client_text is None


def test_garbage_fails() -> None:
    assert failure(OAuthBearerServer(validate), b"\xff" * 100).client_text is None


@pytest.mark.parametrize(("authorization_id", "is_allowed"), [(b"alice", True), (b"bob", False)])
def test_a_client_can_only_act_under_its_own_name(authorization_id: bytes, is_allowed: bool) -> None:
    server = OAuthBearerServer(validate)
    message = b"n,a=" + authorization_id + b",\x01auth=Bearer good\x01\x01"
    if is_allowed:
        assert server.evaluate(message) == b""
    else:
        assert "authorization id" in str(failure(server, message).client_text)
