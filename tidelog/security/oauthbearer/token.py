"""Bearer tokens in the form of a JSON Web Token, and the checks of their claims.

    <header> . <claims> . <signature>      each part in base64url without padding

Errors: TokenError, whose text contains no part of a token except names of claims and their times.
Source: RFC 7519; ClaimValidationUtils, BrokerJwtValidator and OAuthBearerUnsecuredJws of Apache Kafka 4.3.
"""

from __future__ import annotations

import binascii
import json
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from tidelog.base.dataclass import dataclass

INVALID_TOKEN: Final = "invalid_token"
INSUFFICIENT_SCOPE: Final = "insufficient_scope"
KEY_ID_CHARACTERS_MAX: Final = 1000
"""Longer key ids are never looked up."""
_JSON_DEPTH_ERRORS: Final = (ValueError, RecursionError)
_TIME_S_MAX: Final = 2**53
"""Larger numbers are not exact in JSON, and are no times."""


class TokenError(Exception):
    """A token that is not accepted; the text is the reason, for the log.

    `status` is the reason that the client learns. `scope`: the required scope that the token lacks.
    """

    def __init__(self, text: str, *, status: str = INVALID_TOKEN, scope: str | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.scope = scope


@dataclass(frozen=True, slots=True, kw_only=True)
class BearerToken:
    """A token and its claims; `issued_ms` and `expires_ms` are in milliseconds since 1970.

    `value` is hidden in the representation, because it is a secret: a client only needs the value.
    """

    value: str = field(repr=False)
    principal: str
    expires_ms: int
    issued_ms: int | None = None
    scopes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """What the claims of a signed token must contain, and the names of two claims."""

    expected_audiences: frozenset[str] = frozenset()
    expected_issuer: str | None = None
    clock_skew_ms: int = 0
    scope_claim: str = "scope"
    principal_claim: str = "sub"


@dataclass(frozen=True, slots=True)
class TokenParts:
    """The decoded header and claims of a token, which are not verified."""

    header: Mapping[str, Any] = field(repr=False)
    claims: Mapping[str, Any] = field(repr=False)
    has_signature: bool


def decode_token(value: str) -> TokenParts:
    """Return header and claims of a token; raise TokenError if it is malformed."""
    parts = value.split(".")
    if len(parts) != 3:
        raise TokenError(f"a token of {min(len(parts), 100)} parts instead of 3")
    return TokenParts(_decode_object(parts[0], "header"), _decode_object(parts[1], "payload"), bool(parts[2]))


def read_token(value: str, claims: Mapping[str, Any], scope_claim: str, principal_claim: str) -> BearerToken:
    """Return the token with its claims; raise TokenError if one is missing or of another type."""
    return BearerToken(
        value=value,
        principal=text_claim(claims, principal_claim),
        expires_ms=required_time_ms(claims, "exp"),
        issued_ms=time_ms(claims, "iat"),
        scopes=read_scopes(claims, scope_claim),
    )


def text_claim(claims: Mapping[str, Any], name: str) -> str:
    """Return a claim that must be a text with at least one character that is not white space."""
    found = claims.get(name)
    if not isinstance(found, str) or not found.strip():
        raise TokenError(f"the claim {name} is missing, empty or no text")
    try:
        found.encode()
    except UnicodeEncodeError:
        # JSON can have half a surrogate pair. Such a name cannot be sent to a controller.
        raise TokenError(f"the claim {name} is not valid Unicode text") from None
    return found.strip()


def time_ms(claims: Mapping[str, Any], name: str) -> int | None:
    """Return a claim in seconds since 1970 as milliseconds; None if it is missing."""
    found = claims.get(name)
    if found is None:
        return None
    # JSON's NaN and Infinity fail the comparison.
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= _TIME_S_MAX:
        raise TokenError(f"the claim {name} is not a time in seconds")
    return round(found * 1000)


def required_time_ms(claims: Mapping[str, Any], name: str) -> int:
    """Return a claim in seconds since 1970 as milliseconds; raise TokenError if it is missing."""
    found = time_ms(claims, name)
    if found is None:
        raise TokenError(f"the claim {name} is missing")
    return found


def read_scopes(claims: Mapping[str, Any], name: str) -> frozenset[str]:
    """Return the scopes of a token: a text is one scope, as in Kafka; other types have none."""
    found = claims.get(name)
    listed = [found] if isinstance(found, str) else found if isinstance(found, list) else []
    if not all(isinstance(scope, str) and scope.strip() for scope in listed):
        raise TokenError(f"the claim {name} contains an empty scope, or one that is not text")
    scopes = frozenset(scope.strip() for scope in listed)
    if len(scopes) < len(listed):
        raise TokenError(f"the claim {name} contains a scope twice")
    return scopes


def _decode_object(part: str, name: str) -> Mapping[str, Any]:
    try:
        found = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (*_JSON_DEPTH_ERRORS, binascii.Error):
        # Not chained: the error would contain the token.
        raise TokenError(f"the {name} of the token is not JSON in base64url") from None
    if not isinstance(found, dict):
        raise TokenError(f"the {name} of the token is not a JSON object")
    return found
