"""Signed tokens: valid, expired, not valid yet, other audience or issuer, other keys, forged, garbage."""

from __future__ import annotations

import hmac
import json
from typing import Any

import pytest
from joserfc.jwk import RSAKey
from joserfc.jws import serialize_compact

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.security.identity_provider import (
    AUDIENCE,
    ISSUER,
    SigningKey,
    claims,
    encode_part,
    key_set,
    unsecured_token,
)
from tidelog.security.oauthbearer.key_set import ALGORITHMS, KeySet, parse_key_set
from tidelog.security.oauthbearer.signed import UnknownKeyError, verify_token
from tidelog.security.oauthbearer.token import BearerToken, TokenError, TokenRules

NOW_S = NOW_MS // 1000
KEY, OTHER = SigningKey(), SigningKey("key-2", number=2)
KEYS = parse_key_set(key_set(KEY))
RULES = TokenRules(
    expected_audiences=frozenset({AUDIENCE, "other"}), expected_issuer=ISSUER, clock_skew_ms=30_000
)
CANARY = "canary-e5"


def verify(token: str, rules: TokenRules = RULES, keys: KeySet = KEYS) -> BearerToken:
    return verify_token(token, rules, keys, NOW_MS)


def expect_token_error(token: str, rules: TokenRules = RULES, keys: KeySet = KEYS) -> TokenError:
    with pytest.raises(TokenError) as raised:
        verify(token, rules, keys)
    assert raised.value.status == "invalid_token" and raised.value.__cause__ is None
    assert CANARY not in str(raised.value) and "\n" not in str(raised.value)
    return raised.value


def sign_token(key: SigningKey = KEY, **changes: Any) -> str:
    return key.sign(claims(NOW_MS, **{"jti": CANARY, **changes}))


def test_a_valid_token_has_principal_times_and_scopes() -> None:
    token = verify(sign_token(scope=["read", "write"]))
    assert (token.principal, token.expires_ms, token.issued_ms) == ("alice", NOW_MS + 3_600_000, NOW_MS)
    assert token.scopes == {"read", "write"}
    assert token.value not in repr(token)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_is_verified(algorithm: str) -> None:
    key = SigningKey("key", algorithm)
    keys = parse_key_set(key_set(key))
    assert verify(sign_token(key), keys=keys).principal == "alice"
    header, _, signature = sign_token(key).split(".")
    forged = encode_part({**claims(NOW_MS), "sub": "admin"})
    assert "signature" in str(expect_token_error(f"{header}.{forged}.{signature}", keys=keys))


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": ["x", AUDIENCE]},
        {"aud": "other"},
        {"exp": NOW_S - 29, "iat": NOW_S - 60},
        {"nbf": NOW_S + 30},
        {"exp": NOW_S + 0.5},
        {"scope": 5},
        {"sub": " alice "},
        {"iat": NOW_S + 100},
    ],
)
def test_what_kafka_accepts_is_accepted(changes: dict[str, Any]) -> None:
    assert verify(sign_token(**changes)).principal == "alice"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"exp": NOW_S - 30, "iat": NOW_S - 60}, "the token has expired"),
        ({"exp": None}, "the claim exp is missing"),
        ({"iat": None}, "the claim iat is missing"),
        ({"nbf": NOW_S + 31}, "not valid yet"),
        ({"iat": NOW_S + 4000}, "expires before it begins"),
        ({"aud": None}, "no audience"),
        ({"aud": "x"}, "the audience 'x' is not expected"),
        ({"aud": []}, "is not expected"),
        ({"aud": [AUDIENCE, 5]}, "the audience of the token is not text"),
        ({"aud": {"a": 1}}, "the audience of the token is not text"),
        ({"iss": None}, "the issuer None is not the expected one"),
        ({"iss": ISSUER + "/"}, "is not the expected one"),
        ({"iss": [ISSUER]}, "the claim iss is not text"),
        ({"jti": 5}, "the claim jti is not text"),
        ({"sub": None}, "the claim sub is missing"),
        ({"sub": "  "}, "the claim sub is missing"),
        ({"sub": 5}, "the claim sub is not text"),
        ({"exp": "soon"}, "the claim exp is not a time"),
        ({"exp": True}, "the claim exp is not a time"),
        ({"exp": float("nan")}, "the claim exp is not a time"),
        ({"exp": 10**400}, "the claim exp is not a time"),
        ({"exp": -5}, "the claim exp is not a time"),
        ({"scope": ["a", "a"]}, "twice"),
        ({"scope": ""}, "empty scope"),
    ],
)
def test_a_token_with_other_claims_is_rejected(changes: dict[str, Any], reason: str) -> None:
    assert reason in str(expect_token_error(sign_token(**changes)))


def test_without_an_expected_audience_a_token_for_an_audience_is_rejected_as_in_kafka() -> None:
    rules = TokenRules()
    assert "none" in str(expect_token_error(sign_token(), rules))
    assert verify(sign_token(aud=None, iss=None), rules).principal == "alice"


def test_other_names_of_claims() -> None:
    rules = TokenRules(principal_claim="client", scope_claim="scp")
    token = verify(sign_token(aud=None, sub=None, client="bob", scp="all"), rules)
    assert (token.principal, token.scopes) == ("bob", frozenset({"all"}))


def test_a_token_of_another_key_is_rejected() -> None:
    other_key = SigningKey(KEY.key_id, number=3)
    assert "signature" in str(expect_token_error(sign_token(other_key)))


def test_an_unknown_key_id_is_reported() -> None:
    error = expect_token_error(sign_token(OTHER))
    assert isinstance(error, UnknownKeyError) and error.key_id == "key-2"
    assert verify(sign_token(OTHER), keys=parse_key_set(key_set(KEY, OTHER))).principal == "alice"


def test_a_token_without_a_key_id_is_verified_with_the_keys_of_its_algorithm() -> None:
    key_without_id = SigningKey(None, number=2)
    elliptic = SigningKey("key-3", "ES256")
    keys = parse_key_set(key_set(elliptic, KEY, OTHER))
    assert verify(sign_token(key_without_id), keys=keys).principal == "alice"
    error = expect_token_error(sign_token(key_without_id), keys=parse_key_set(key_set(elliptic)))
    assert isinstance(error, UnknownKeyError) and error.key_id is None


def test_a_key_for_another_algorithm_is_not_used() -> None:
    other_algorithm = SigningKey(KEY.key_id, "RS512")
    assert isinstance(expect_token_error(other_algorithm.sign(claims(NOW_MS))), UnknownKeyError)


def test_cve_2026_33557_an_unsigned_token_is_rejected() -> None:
    text = unsecured_token(claims(NOW_MS))
    for token in (text, text + "x", text.replace(encode_part({"alg": "none"}), encode_part({"alg": "None"}))):
        assert "is not accepted" in str(expect_token_error(token))
    header, payload, _ = sign_token().split(".")
    assert "signature" in str(expect_token_error(f"{header}.{payload}."))


def test_a_token_that_is_signed_with_the_public_key_as_secret_is_rejected() -> None:
    public = KEY.private.as_pem(private=False)
    start = f"{encode_part({'alg': 'HS256', 'kid': KEY.key_id})}.{encode_part(claims(NOW_MS))}"
    token = f"{start}.{encode_part(hmac.digest(public, start.encode(), 'sha256'))}"
    assert "'HS256' is not accepted" in str(expect_token_error(token))


@pytest.mark.parametrize(
    "token",
    [
        "",
        CANARY,
        "a.b",
        "a.b.c",
        "a.b.c.d.e",
        "...",
        f"{CANARY}.{CANARY}.{CANARY}",
        f"{encode_part([])}.{encode_part({})}.x",
        f"{encode_part({})}.{encode_part({})}.x",
        f"{encode_part({'alg': 5})}.{encode_part({})}.x",
        f"{encode_part({'alg': ['RS256']})}.{encode_part({})}.x",
        f"{encode_part({'alg': 'RS256', 'kid': 5})}.{encode_part({})}.x",
        f"{encode_part(b'[' * 5000)}.{encode_part({})}.x",
        f"{encode_part({'alg': 'RS256', 'kid': 'key-1'})}.{encode_part(b'[' * 50_000)}.x",
        f"{encode_part({'alg': 'RS256', 'kid': 'key-1'})}.\u00e4.x",
    ],
)
def test_garbage_is_rejected(token: str) -> None:
    expect_token_error(token)


def test_an_oversized_token_is_rejected() -> None:
    assert "too large" in str(expect_token_error(sign_token(padding="x" * 70_000)))
    assert "too large" in str(expect_token_error(KEY.sign(claims(NOW_MS), padding="x" * 20_000)))


def test_a_critical_header_that_is_not_understood_is_rejected() -> None:
    header = encode_part({"alg": "RS256", "kid": KEY.key_id, "crit": ["x"], "x": 1})
    _, payload, signature = sign_token().split(".")
    expect_token_error(f"{header}.{payload}.{signature}")


@pytest.mark.parametrize("payload", [b"[]", b"5", b"garbage", b"[" * 5000])
def test_a_signed_payload_that_is_no_object_is_rejected(payload: bytes) -> None:
    token = serialize_compact({"alg": "RS256", "kid": KEY.key_id}, payload, KEY.private)
    kind = "a JSON object" if payload in (b"[]", b"5") else "JSON"
    assert f"the payload of the token is not {kind}" in str(expect_token_error(token))


@pytest.mark.filterwarnings("ignore:Key size")
def test_keys_that_cannot_verify_are_ignored() -> None:
    usable = KEY.public()
    with pytest.warns(Warning):
        short = RSAKey.generate_key(1024).as_dict(private=False)
    listed = [
        {**usable, "kid": "encryption", "use": "enc"},
        {**usable, "kid": "signing", "key_ops": ["sign"]},
        {**usable, "kid": 5},
        {**usable, "kid": "x" * 2000},
        {**usable, "kid": "no number", "n": 5},
        {**short, "kid": "short"},
        {"kty": "oct", "k": "AAAA", "kid": "secret"},
        {"kty": "EC", "crv": "P-999", "x": "AA", "y": "AA", "kid": "curve"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "kid": "no point"},
        {"kty": ["RSA"], "kid": "list"},
        {},
        5,
        usable,
    ]
    assert parse_key_set(json.dumps({"keys": listed}).encode()).key_ids == {"key-1"}


@pytest.mark.parametrize(
    "text",
    [b"", b"garbage " + CANARY.encode(), b"[]", b"{}", b'{"keys": 5}', b'{"keys": []}', b"[" * 100_000],
)
def test_a_key_set_without_keys_is_rejected_without_showing_it(text: bytes) -> None:
    with pytest.raises(ValueError) as raised:
        parse_key_set(text)
    assert CANARY not in str(raised.value) and raised.value.__cause__ is None


def test_a_key_set_of_many_keys_is_rejected() -> None:
    with pytest.raises(ValueError, match="at most 200"):
        parse_key_set(json.dumps({"keys": [{}] * 201}).encode())
