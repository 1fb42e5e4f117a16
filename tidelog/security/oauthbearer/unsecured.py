"""Unsecured tokens: tokens without a signature, which everyone can create. Only for development and tests.

Options of the login module for the validation on a broker:

    unsecuredValidatorPrincipalClaimName   the claim with the principal; by default sub
    unsecuredValidatorScopeClaimName       the claim with the scope; by default scope
    unsecuredValidatorRequiredScope        scopes that a token must have, separated by spaces
    unsecuredValidatorAllowableClockSkewMs by default 0

Options for the creation on a client:

    unsecuredLoginStringClaim_<claim>, unsecuredLoginNumberClaim_<claim>
    unsecuredLoginListClaim_<claim>        the first character separates the elements
    unsecuredLoginPrincipalClaimName, unsecuredLoginScopeClaimName
    unsecuredLoginLifetimeSeconds          by default 3600
    unsecuredLoginExtension_<name>         a SASL extension

Source: KIP-255; OAuthBearerUnsecuredValidatorCallbackHandler and OAuthBearerUnsecuredLoginCallbackHandler of
Apache Kafka 4.3.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import Any, Final

from tidelog.base.dataclass import dataclass
from tidelog.security.jaas import JaasError
from tidelog.security.oauthbearer.token import (
    INSUFFICIENT_SCOPE,
    BearerToken,
    TokenError,
    decode_token,
    read_token,
    required_time_ms,
    time_ms,
)

EXTENSION_PREFIX: Final = "unsecuredLoginExtension_"
_STRING_PREFIX: Final = "unsecuredLoginStringClaim_"
_NUMBER_PREFIX: Final = "unsecuredLoginNumberClaim_"
_LIST_PREFIX: Final = "unsecuredLoginListClaim_"
_CALCULATED: Final = frozenset({"iat", "exp"})
_DEFAULT_PRINCIPAL_CLAIM: Final = "sub"
_DEFAULT_SCOPE_CLAIM: Final = "scope"
_DEFAULT_LIFETIME_S: Final = 3600
_NUMBER: Final = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsecuredValidator:
    """Accepts unsecured tokens that are not expired and have all required scopes."""

    principal_claim: str = _DEFAULT_PRINCIPAL_CLAIM
    scope_claim: str = _DEFAULT_SCOPE_CLAIM
    required_scopes: tuple[str, ...] = ()
    clock_skew_ms: int = 0

    @classmethod
    def of_options(cls, options: Mapping[str, str]) -> UnsecuredValidator:
        """Return the validator with the options of a login module. Raise JaasError."""
        scopes = _option(options, "unsecuredValidatorRequiredScope", "").split()
        for scope in scopes:
            if _SCOPE.fullmatch(scope) is None:
                raise JaasError(
                    "unsecuredValidatorRequiredScope has a scope with a character that is not allowed"
                )
        return cls(
            principal_claim=_option(
                options, "unsecuredValidatorPrincipalClaimName", _DEFAULT_PRINCIPAL_CLAIM
            ),
            scope_claim=_option(options, "unsecuredValidatorScopeClaimName", _DEFAULT_SCOPE_CLAIM),
            required_scopes=tuple(scopes),
            clock_skew_ms=_number_option(options, "unsecuredValidatorAllowableClockSkewMs", 0),
        )

    def validate(self, value: str, now_ms: int) -> BearerToken:
        """Return the token; raise TokenError if it is not accepted at `now_ms`, milliseconds since 1970."""
        parts = decode_token(value)
        if parts.header.get("alg") != "none" or parts.has_signature:
            raise TokenError("an unsecured token must have the algorithm none and no signature")
        token = read_token(value, parts.claims, self.scope_claim, self.principal_claim)
        expires_ms, issued_ms = required_time_ms(parts.claims, "exp"), time_ms(parts.claims, "iat")
        if issued_ms is not None and issued_ms > now_ms + self.clock_skew_ms:
            raise TokenError(f"the token was issued after the present time: iat={issued_ms} ms, now={now_ms}")
        if now_ms - self.clock_skew_ms >= expires_ms:
            raise TokenError(f"the token has expired: exp={expires_ms} ms, now={now_ms}")
        if issued_ms is not None and expires_ms <= issued_ms:
            raise TokenError("the token does not expire after it was issued")
        missing = [scope for scope in self.required_scopes if scope not in token.scopes]
        if missing:
            # The form of a list in Java, which Kafka's clients print.
            required = f"[{', '.join(self.required_scopes)}]"
            text = f"the token lacks the required scope {missing[0]}"
            raise TokenError(text, status=INSUFFICIENT_SCOPE, scope=required)
        return token


def create_unsecured_token(options: Mapping[str, str], now_ms: int) -> BearerToken:
    """Return the unsecured token that a client's options define. Raise JaasError, which has no value."""
    claims = _claims(options)
    claims["iat"] = now_ms / 1000
    claims["exp"] = now_ms / 1000 + _number_option(
        options, "unsecuredLoginLifetimeSeconds", _DEFAULT_LIFETIME_S
    )
    value = f"{_encoded({'alg': 'none'})}.{_encoded(claims)}."
    principal_claim = _option(options, "unsecuredLoginPrincipalClaimName", _DEFAULT_PRINCIPAL_CLAIM)
    scope_claim = _option(options, "unsecuredLoginScopeClaimName", _DEFAULT_SCOPE_CLAIM)
    try:
        return read_token(value, claims, scope_claim, principal_claim)
    except TokenError as error:
        allowed = f"an unsecured token needs the option {_STRING_PREFIX}{principal_claim}"
        raise JaasError(f"{error}; {allowed}") from None


def _claims(options: Mapping[str, str]) -> dict[str, Any]:
    claims: dict[str, Any] = {}
    for option, value in options.items():
        if option.startswith(_STRING_PREFIX):
            claims[option.removeprefix(_STRING_PREFIX)] = value
        elif option.startswith(_LIST_PREFIX):
            claims[option.removeprefix(_LIST_PREFIX)] = value[1:].split(value[0]) if value else []
        elif option.startswith(_NUMBER_PREFIX):
            if _NUMBER.fullmatch(value) is None:
                raise JaasError(f"the value of {option} is not a number")
            claims[option.removeprefix(_NUMBER_PREFIX)] = float(value)
    reserved = _CALCULATED & claims.keys()
    if reserved:
        raise JaasError(f"the claim {min(reserved)} of an unsecured token is calculated; remove its option")
    return claims


def _encoded(part: Mapping[str, Any]) -> str:
    return urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


def _option(options: Mapping[str, str], name: str, default: str) -> str:
    return options.get(name, "").strip() or default


def _number_option(options: Mapping[str, str], name: str, default: int) -> int:
    text = _option(options, name, str(default))
    if not text.isascii() or not text.isdecimal() or len(text) > 10:
        raise JaasError(f"the value of {name} is not a number of at most 10 digits")
    return int(text)
