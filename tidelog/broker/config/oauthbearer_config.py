"""The settings of OAUTHBEARER on one listener: how the tokens of clients are validated.

    sasl.server.callback.handler.class   signed or unsecured tokens; required
    sasl.oauthbearer.jwks.endpoint.*     the address of the keys of the identity provider
    sasl.oauthbearer.expected.*          the audience and the issuer that a token must have
    sasl.oauthbearer.clock.skew.seconds, sasl.oauthbearer.scope.claim.name, sasl.oauthbearer.sub.claim.name

A difference from Apache Kafka, which accepts unsecured tokens if no class is set: here the class must be set,
so that an incomplete configuration does not admit every client (CVE-2026-33557).

Errors: ConfigError. Source: KIP-768; OAuthBearerValidatorCallbackHandler of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from tidelog.base.config_definition import HIDDEN_VALUE, ConfigError
from tidelog.base.dataclass import dataclass
from tidelog.broker.config.mechanism_values import explicit_key, mechanism_value
from tidelog.broker.config.settings import BrokerSettings
from tidelog.security.jaas import JaasError
from tidelog.security.oauthbearer.allowed_resources import AllowedResources, Endpoint
from tidelog.security.oauthbearer.messages import OAUTHBEARER
from tidelog.security.oauthbearer.token import TokenRules
from tidelog.security.oauthbearer.unsecured import UnsecuredValidator
from tidelog.security.tls.settings import TLS_KEYS, TlsSettings, parse_tls_settings

SIGNED_VALIDATOR: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
UNSECURED_VALIDATOR: Final = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured."
    "OAuthBearerUnsecuredValidatorCallbackHandler"
)
_HANDLER: Final = "sasl.server.callback.handler.class"
_VALIDATOR_CLASS: Final = "sasl.oauthbearer.jwt.validator.class"
_VALIDATOR_CLASSES: Final = tuple(
    f"org.apache.kafka.common.security.oauthbearer.{name}"
    for name in ("DefaultJwtValidator", "BrokerJwtValidator")
)
_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
_REFRESH: Final = "sasl.oauthbearer.jwks.endpoint.refresh.ms"
_BACKOFF: Final = "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"
_BACKOFF_MAX: Final = "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRefreshSettings:
    """The intervals at which keys are fetched, in milliseconds."""

    refresh_ms: int
    backoff_ms: int
    backoff_max_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedTokenConfig:
    """Validation of tokens with a signature; `tls` is that of the endpoint with the keys."""

    rules: TokenRules
    endpoint: Endpoint
    tls: TlsSettings
    refresh: KeyRefreshSettings


OAuthBearerConfig = SignedTokenConfig | UnsecuredValidator


def oauthbearer_config(
    config: BrokerSettings, listener: str, options: Mapping[str, str]
) -> OAuthBearerConfig:
    """Return the validation of tokens on `listener`; `options` are those of its login module."""
    key = explicit_key(config, listener, OAUTHBEARER, _HANDLER) or _full_key(listener, _HANDLER)
    handler = config.explicit.get(key)
    if handler == UNSECURED_VALIDATOR:
        try:
            return UnsecuredValidator.of_options(options)
        except JaasError as error:
            raise ConfigError(_full_key(listener, "sasl.jaas.config"), HIDDEN_VALUE, str(error)) from None
    if handler != SIGNED_VALIDATOR:
        allowed = f"allowed are {SIGNED_VALIDATOR}, and for tests without security {UNSECURED_VALIDATOR}"
        raise ConfigError(key, handler, allowed)
    return _signed_token_config(config, listener, options)


def _signed_token_config(
    config: BrokerSettings, listener: str, options: Mapping[str, str]
) -> SignedTokenConfig:
    validator = _text(config, listener, _VALIDATOR_CLASS)
    if validator not in _VALIDATOR_CLASSES:
        # The validator of clients does not verify signatures.
        raise ConfigError(_VALIDATOR_CLASS, validator, f"allowed are {', '.join(_VALIDATOR_CLASSES)}")
    url_key = explicit_key(config, listener, OAUTHBEARER, _URL) or _URL
    url = mechanism_value(config, listener, OAUTHBEARER, _URL)
    assert url is None or isinstance(url, str)
    endpoint = AllowedResources.of_environment(os.environ).endpoint(url_key, url)
    backoff_ms = _positive_number(config, listener, _BACKOFF)
    backoff_max_ms = _positive_number(config, listener, _BACKOFF_MAX)
    if backoff_max_ms < backoff_ms:
        raise ConfigError(_BACKOFF_MAX, backoff_max_ms, f"allowed is at least {_BACKOFF}, {backoff_ms}")
    return SignedTokenConfig(
        rules=_rules(config, listener),
        endpoint=endpoint,
        tls=parse_tls_settings({key: options.get(key) for key in TLS_KEYS}),
        refresh=KeyRefreshSettings(
            refresh_ms=_positive_number(config, listener, _REFRESH),
            backoff_ms=backoff_ms,
            backoff_max_ms=backoff_max_ms,
        ),
    )


def _rules(config: BrokerSettings, listener: str) -> TokenRules:
    audiences = mechanism_value(config, listener, OAUTHBEARER, "sasl.oauthbearer.expected.audience")
    issuer = mechanism_value(config, listener, OAUTHBEARER, "sasl.oauthbearer.expected.issuer")
    skew_s = mechanism_value(config, listener, OAUTHBEARER, "sasl.oauthbearer.clock.skew.seconds")
    assert isinstance(audiences, tuple) and isinstance(skew_s, int)
    if skew_s < 0:
        raise ConfigError("sasl.oauthbearer.clock.skew.seconds", skew_s, "allowed is a number of at least 0")
    return TokenRules(
        expected_audiences=frozenset(audiences),
        expected_issuer=str(issuer).strip() if issuer is not None else None,
        clock_skew_ms=skew_s * 1000,
        scope_claim=_text(config, listener, "sasl.oauthbearer.scope.claim.name"),
        principal_claim=_text(config, listener, "sasl.oauthbearer.sub.claim.name"),
    )


def _text(config: BrokerSettings, listener: str, key: str) -> str:
    text = mechanism_value(config, listener, OAUTHBEARER, key)
    assert isinstance(text, str)
    if not text.strip():
        raise ConfigError(key, text, "allowed is a text that is not empty")
    return text.strip()


def _positive_number(config: BrokerSettings, listener: str, key: str) -> int:
    number = mechanism_value(config, listener, OAUTHBEARER, key)
    assert isinstance(number, int)
    if number < 1:
        raise ConfigError(key, number, "allowed is a number of at least 1")
    return number


def _full_key(listener: str, key: str) -> str:
    return f"listener.name.{listener.lower()}.{OAUTHBEARER.lower()}.{key}"
