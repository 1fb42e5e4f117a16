"""What users of the console enter to sign in."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tidelog.cli.console.credentials import CredentialsError, PasswordForm, TokenForm
from tidelog.security.jaas import parse_jaas
from tidelog.security.oauthbearer.unsecured import create_unsecured_token


def test_a_password_becomes_a_jaas_config_and_is_hidden() -> None:
    credentials = PasswordForm("PLAIN").read({"user": "alice", "password": 'a"b'})
    assert parse_jaas(credentials.client_options["sasl_jaas_config"], "PLAIN").options == {
        "username": "alice",
        "password": 'a"b',
    }
    assert (credentials.user, credentials.expires_ms) == ("alice", None)
    assert 'a"b' not in repr(credentials)


@pytest.mark.parametrize(
    ("document", "status"),
    [
        ({}, 400),
        ({"user": "alice"}, 400),
        ({"user": "alice", "password": 7}, 400),
        ({"user": "alice", "password": ""}, 401),
        ({"user": "", "password": "secret"}, 401),
    ],
)
def test_incomplete_passwords_are_refused(document: dict[str, Any], status: int) -> None:
    with pytest.raises(CredentialsError) as refused:
        PasswordForm("PLAIN").read(document)
    assert refused.value.status == status
    assert "secret" not in str(refused.value)


def test_a_token_has_the_name_and_the_end_of_its_claims() -> None:
    token = create_unsecured_token({"unsecuredLoginStringClaim_sub": "alice"}, NOW_MS).value
    credentials = TokenForm("sub").read({"token": f" {token}\n"})
    assert credentials.client_options["oauth_token_provider"]() == token
    assert (credentials.user, credentials.expires_ms) == ("alice", NOW_MS + 3_600_000)
    assert token not in repr(credentials)


@pytest.mark.parametrize(
    ("document", "status", "text"),
    [
        ({}, 400, "the text token"),
        ({"token": 7}, 400, "the text token"),
        ({"token": "opaque"}, 401, "a token of 1 parts instead of 3"),
        ({"token": "a.b.c"}, 401, "is not JSON in base64url"),
        ({"token": "e30.e30."}, 401, "the claim sub is missing"),
        ({"token": "e30.eyJzdWIiOiJhIn0."}, 401, "the claim exp is missing"),
    ],
)
def test_what_is_no_token_is_refused_with_the_reason(
    document: dict[str, Any], status: int, text: str
) -> None:
    with pytest.raises(CredentialsError) as refused:
        TokenForm("sub").read(document)
    assert refused.value.status == status
    assert text in str(refused.value)
