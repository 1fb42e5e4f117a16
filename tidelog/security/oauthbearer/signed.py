"""Verification of signed tokens with the public keys of the identity provider.

Signature, times, audience and issuer are checked as by jose4j in Apache Kafka: `exp` and `iat` are required,
`nbf` is checked if it is present, a token that has an audience is accepted only if one is expected.
Unlike there, HMAC is never accepted.

Source: RFC 7515, RFC 7519, KIP-768; BrokerJwtValidator of Apache Kafka 4.3.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from joserfc.errors import JoseError
from joserfc.jws import CompactSignature, JWSRegistry, extract_compact, validate_compact

from tidelog.security.oauthbearer.key_set import ALGORITHMS, KeySet
from tidelog.security.oauthbearer.token import (
    BearerToken,
    TokenError,
    TokenRules,
    read_token,
    required_time_ms,
    time_ms,
)

_TEXTS: Final = ("iss", "sub", "jti")
"""Claims that are texts if they are present."""
_TEXT_CHARACTERS_SHOWN: Final = 100


class UnknownKeyError(TokenError):
    """A token whose key is not in the key set; `key_id` is None if the token has none."""

    def __init__(self, text: str, key_id: str | None) -> None:
        super().__init__(text)
        self.key_id = key_id


class _Registry(JWSRegistry):
    """The limits of a token: larger headers than by default, because some have certificate chains."""

    max_header_length = 16 * 1024
    max_payload_length = 64 * 1024
    max_signature_length = 4 * 1024


_REGISTRY: Final = _Registry(algorithms=tuple(ALGORITHMS), strict_check_header=False)


def verify_token(value: str, rules: TokenRules, keys: KeySet, now_ms: int) -> BearerToken:
    """Return the verified token; raise TokenError if it is not accepted at `now_ms` (since 1970).

    UnknownKeyError: none of `keys` is the one that the token names.
    """
    claims = _verified_claims(value, keys)
    _check_times(claims, rules.clock_skew_ms, now_ms)
    _check_audience(claims, rules.expected_audiences)
    for name in _TEXTS:
        if not isinstance(claims.get(name), str | None):
            raise TokenError(f"the claim {name} is not text")
    if rules.expected_issuer is not None and claims.get("iss") != rules.expected_issuer:
        raise TokenError(f"the issuer {_short_text(claims.get('iss'))} is not the expected one")
    return read_token(value, claims, rules.scope_claim, rules.principal_claim)


def _check_times(claims: Mapping[str, Any], clock_skew_ms: int, now_ms: int) -> None:
    expires_ms, issued_ms = required_time_ms(claims, "exp"), required_time_ms(claims, "iat")
    begins_ms = time_ms(claims, "nbf")
    if now_ms - clock_skew_ms >= expires_ms:
        raise TokenError(f"the token has expired: exp={expires_ms} ms, now={now_ms}")
    if begins_ms is not None and now_ms + clock_skew_ms < begins_ms:
        raise TokenError(f"the token is not valid yet: nbf={begins_ms} ms, now={now_ms}")
    if expires_ms < max(issued_ms, begins_ms or 0):
        raise TokenError("the token expires before it begins")


def _check_audience(claims: Mapping[str, Any], expected: frozenset[str]) -> None:
    if "aud" not in claims:
        if expected:
            raise TokenError("the token has no audience")
        return
    found = claims["aud"]
    audiences = found if isinstance(found, list) else [found]
    if not all(isinstance(audience, str) for audience in audiences):
        raise TokenError("the audience of the token is not text")
    if expected.isdisjoint(audiences):
        allowed = ", ".join(sorted(expected)) or "none, because sasl.oauthbearer.expected.audience is empty"
        raise TokenError(f"the audience {_short_text(found)} is not expected; expected are: {allowed}")


def _verified_claims(value: str, keys: KeySet) -> Mapping[str, Any]:
    """Return the claims of a token whose signature is valid."""
    try:
        parsed = extract_compact(value.encode("ascii"), registry=_REGISTRY)
        header = parsed.headers()
        _REGISTRY.check_header(header)
    except (JoseError, ValueError, TypeError, RecursionError):
        # Not chained: the errors may contain parts of the token.
        raise TokenError("the token is not a signed token in compact form, or is too large") from None
    algorithm, key_id = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise TokenError(f"the algorithm {_short_text(algorithm)} is not accepted")
    candidates = keys.candidates(key_id, algorithm)
    if not candidates:
        text = f"no key for the key id {_short_text(key_id)} and the algorithm {algorithm}"
        raise UnknownKeyError(text, key_id)
    if not any(_is_signed_with(parsed, candidate.key) for candidate in candidates):
        raise TokenError("the signature of the token is not valid")
    return _claims(parsed.payload)


def _is_signed_with(parsed: CompactSignature, key: Any) -> bool:
    try:
        return validate_compact(parsed, key, registry=_REGISTRY)
    except (JoseError, ValueError, TypeError):
        return False


def _claims(payload: bytes) -> Mapping[str, Any]:
    try:
        claims = json.loads(payload)
    except (ValueError, RecursionError):
        raise TokenError("the payload of the token is not JSON") from None
    if not isinstance(claims, dict):
        raise TokenError("the payload of the token is not a JSON object")
    return claims


def _short_text(value: object) -> str:
    """Return a short text of a value that the sender of a token chooses."""
    return repr(value)[:_TEXT_CHARACTERS_SHOWN]
