"""Unsecured tokens: creation on clients and validation on brokers, with Kafka's options."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.security.identity_provider import SigningKey, encode_part, unsecured_token
from tidelog.security.jaas import JaasError
from tidelog.security.oauthbearer.token import TokenError
from tidelog.security.oauthbearer.unsecured import UnsecuredValidator, create_unsecured_token

NOW_S = NOW_MS / 1000
CLAIMS: dict[str, Any] = {"sub": "alice", "iat": NOW_S, "exp": NOW_S + 60}


def test_a_broker_accepts_what_a_client_creates() -> None:
    options = {
        "unsecuredLoginStringClaim_sub": "alice",
        "unsecuredLoginListClaim_scope": "|read|write",
        "unsecuredLoginNumberClaim_age": "5.5",
        "unsecuredLoginLifetimeSeconds": "60",
        "unsecuredLoginExtension_traceId": "1",
    }
    token = create_unsecured_token(options, NOW_MS)
    validator = UnsecuredValidator.of_options({"unsecuredValidatorRequiredScope": "write read"})
    assert validator.validate(token.value, NOW_MS) == token
    scopes = frozenset({"read", "write"})
    assert (token.principal, token.expires_ms, token.scopes) == ("alice", NOW_MS + 60_000, scopes)


def test_other_names_of_claims() -> None:
    created = create_unsecured_token(
        {
            "unsecuredLoginStringClaim_user": "bob",
            "unsecuredLoginStringClaim_rights": "all",
            "unsecuredLoginPrincipalClaimName": "user",
            "unsecuredLoginScopeClaimName": "rights",
        },
        NOW_MS,
    )
    assert (created.principal, created.expires_ms) == ("bob", NOW_MS + 3_600_000)
    options = {
        "unsecuredValidatorPrincipalClaimName": "user",
        "unsecuredValidatorScopeClaimName": "rights",
        "unsecuredValidatorRequiredScope": "all",
    }
    assert UnsecuredValidator.of_options(options).validate(created.value, NOW_MS).principal == "bob"


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (unsecured_token({**CLAIMS, "exp": NOW_S}), "has expired"),
        (unsecured_token({**CLAIMS, "iat": NOW_S + 1}), "issued after the present time"),
        (unsecured_token({**CLAIMS, "iat": NOW_S, "exp": None}), "the claim exp is missing"),
        (unsecured_token({**CLAIMS, "sub": None}), "the claim sub is missing"),
        (unsecured_token({**CLAIMS, "sub": "half a pair: \ud800"}), "not valid Unicode"),
        (unsecured_token(CLAIMS) + "signature", "algorithm none and no signature"),
        (SigningKey().sign(CLAIMS), "algorithm none and no signature"),
        ("canary", "a token of 1 parts"),
        ("canary.canary.", "not JSON in base64url"),
        (f"{encode_part([])}.{encode_part(CLAIMS)}.", "not a JSON object"),
        (f"{encode_part(b'[' * 50_000)}.{encode_part(CLAIMS)}.", "not JSON in base64url"),
    ],
)
def test_other_tokens_are_rejected(token: str, reason: str) -> None:
    with pytest.raises(TokenError, match=reason) as raised:
        UnsecuredValidator().validate(token, NOW_MS)
    assert "canary" not in str(raised.value) and raised.value.__cause__ is None


def test_clock_skew_is_tolerated() -> None:
    validator = UnsecuredValidator.of_options({"unsecuredValidatorAllowableClockSkewMs": "1001"})
    assert validator.validate(
        unsecured_token({**CLAIMS, "exp": NOW_S - 1, "iat": NOW_S - 9}), NOW_MS
    ).principal
    assert validator.validate(unsecured_token({**CLAIMS, "iat": NOW_S + 1}), NOW_MS).principal


def test_a_token_without_the_required_scope_gets_the_scope_in_the_failure() -> None:
    validator = UnsecuredValidator.of_options({"unsecuredValidatorRequiredScope": "read write"})
    with pytest.raises(TokenError) as raised:
        validator.validate(unsecured_token({**CLAIMS, "scope": ["read"]}), NOW_MS)
    assert (raised.value.status, raised.value.scope) == ("insufficient_scope", "[read, write]")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "unsecuredLoginStringClaim_sub"),
        ({"unsecuredLoginExtension_a": "b"}, "unsecuredLoginStringClaim_sub"),
        (
            {"unsecuredLoginStringClaim_sub": "canary", "unsecuredLoginStringClaim_exp": "canary"},
            "calculated",
        ),
        ({"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginNumberClaim_n": "canary"}, "is not a number"),
        ({"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginNumberClaim_n": "nan"}, "is not a number"),
        ({"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginLifetimeSeconds": "-1"}, "is not a number"),
    ],
)
def test_options_of_a_client_that_cannot_be_used(options: dict[str, str], reason: str) -> None:
    with pytest.raises(JaasError, match=reason) as raised:
        create_unsecured_token(options, NOW_MS)
    assert "canary" not in str(raised.value)


@pytest.mark.parametrize(
    "options",
    [
        {"unsecuredValidatorRequiredScope": 'a"b'},
        {"unsecuredValidatorAllowableClockSkewMs": "-5"},
        {"unsecuredValidatorAllowableClockSkewMs": "x"},
    ],
)
def test_options_of_a_broker_that_cannot_be_used(options: dict[str, str]) -> None:
    with pytest.raises(JaasError):
        UnsecuredValidator.of_options(options)
