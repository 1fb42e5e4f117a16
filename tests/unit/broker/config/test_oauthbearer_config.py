"""OAUTHBEARER on a listener: Kafka's keys and classes, one clear line for settings that cannot work."""

from __future__ import annotations

import pytest

from tidelog.base.config_definition import ConfigError
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.config.oauthbearer_config import (
    SIGNED_VALIDATOR,
    UNSECURED_VALIDATOR,
    SignedTokenConfig,
)
from tidelog.broker.config.sasl_config import sasl_listener_config
from tidelog.security.jaas import OAUTHBEARER_LOGIN_MODULE
from tidelog.security.oauthbearer.allowed_resources import ALLOWED_URLS_VARIABLE
from tidelog.security.oauthbearer.unsecured import UnsecuredValidator

PREFIX = "listener.name.clients."
HANDLER = f"{PREFIX}oauthbearer.sasl.server.callback.handler.class"
JAAS = f"{PREFIX}oauthbearer.sasl.jaas.config"
URL = "https://id.example/keys"
BASE = {
    "node.id": "1",
    "listeners": "PLAINTEXT://:0,CLIENTS://:1",
    "advertised.listeners": "PLAINTEXT://here:0,CLIENTS://here:1",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    HANDLER: SIGNED_VALIDATOR,
    "sasl.oauthbearer.jwks.endpoint.url": URL,
}


@pytest.fixture(autouse=True)
def allow_url(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow the URL."""
    monkeypatch.setenv(ALLOWED_URLS_VARIABLE, f"https://other.example/,{URL}")


def with_keys(changes: dict[str, str | None]) -> BrokerConfig:
    return BrokerConfig({key: text for key, text in {**BASE, **changes}.items() if text is not None})


def signed_token_config(changes: dict[str, str | None]) -> SignedTokenConfig:
    oauthbearer = sasl_listener_config(with_keys(changes), "CLIENTS").oauthbearer
    assert isinstance(oauthbearer, SignedTokenConfig)
    return oauthbearer


def config_error(changes: dict[str, str | None]) -> str:
    with pytest.raises(ConfigError) as raised:
        with_keys(changes)
    assert "\n" not in str(raised.value) and "canary" not in str(raised.value)
    return str(raised.value)


def test_the_defaults_equal_kafkas() -> None:
    oauthbearer = signed_token_config({})
    assert oauthbearer.endpoint.url == URL
    rules, refresh = oauthbearer.rules, oauthbearer.refresh
    assert (rules.expected_audiences, rules.expected_issuer, rules.clock_skew_ms) == (
        frozenset(),
        None,
        30_000,
    )
    assert (rules.scope_claim, rules.principal_claim) == ("scope", "sub")
    assert (refresh.refresh_ms, refresh.backoff_ms, refresh.backoff_max_ms) == (3_600_000, 100, 10_000)


def test_keys_of_the_listener_and_the_mechanism_have_precedence() -> None:
    oauthbearer = signed_token_config(
        {
            "sasl.oauthbearer.expected.audience": "a",
            f"{PREFIX}sasl.oauthbearer.expected.audience": "b,c",
            "sasl.oauthbearer.expected.issuer": "https://x",
            f"{PREFIX}oauthbearer.sasl.oauthbearer.expected.issuer": "https://y",
            f"{PREFIX}oauthbearer.sasl.oauthbearer.clock.skew.seconds": "5",
            "oauthbearer.sasl.oauthbearer.sub.claim.name": "client_id",
        }
    )
    rules = oauthbearer.rules
    assert (rules.expected_audiences, rules.expected_issuer) == (frozenset({"b", "c"}), "https://y")
    assert (rules.clock_skew_ms, rules.principal_claim) == (5_000, "client_id")


def test_cve_2026_33557_unsecured_tokens_need_the_name_of_their_validator() -> None:
    text = config_error({HANDLER: None})
    assert HANDLER in text and SIGNED_VALIDATOR in text
    jaas = f'{OAUTHBEARER_LOGIN_MODULE} required unsecuredValidatorRequiredScope="a b";'
    config = with_keys({HANDLER: UNSECURED_VALIDATOR, JAAS: jaas, "sasl.oauthbearer.jwks.endpoint.url": None})
    oauthbearer = sasl_listener_config(config, "CLIENTS").oauthbearer
    assert isinstance(oauthbearer, UnsecuredValidator) and oauthbearer.required_scopes == ("a", "b")


def test_cve_2026_110985_signatures_need_the_url_of_the_keys() -> None:
    assert "jwks.endpoint.url; the URL is required" in config_error(
        {"sasl.oauthbearer.jwks.endpoint.url": None}
    )
    assert "jwks.endpoint.url; the URL is required" in config_error(
        {"sasl.oauthbearer.jwks.endpoint.url": " "}
    )


@pytest.mark.parametrize(
    "validator", ["ClientJwtValidator", "com.example.OwnValidator", "DefaultJwtValidator2"]
)
def test_cve_2026_33557_the_validator_must_verify_signatures(validator: str) -> None:
    key = "sasl.oauthbearer.jwt.validator.class"
    name = f"org.apache.kafka.common.security.oauthbearer.{validator}"
    assert "BrokerJwtValidator" in config_error({key: name})
    assert signed_token_config({key: "org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator"})


def test_cve_2025_27817_the_url_must_be_allowed_outside_of_the_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = f"{PREFIX}oauthbearer.sasl.oauthbearer.jwks.endpoint.url"
    for url in ("file:///etc/passwd", "http://169.254.169.254/", URL + "/"):
        text = config_error({key: url})
        assert ALLOWED_URLS_VARIABLE in text and key in text
    monkeypatch.delenv(ALLOWED_URLS_VARIABLE)
    assert ALLOWED_URLS_VARIABLE in config_error({})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({HANDLER: "com.example.Handler"}, "allowed are org.apache.kafka"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "ftp://canary"}, "allowed are ASCII URLs"),
        ({"sasl.oauthbearer.jwks.endpoint.refresh.ms": "0"}, "at least 1"),
        ({"sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "20000"}, "at least"),
        ({"sasl.oauthbearer.clock.skew.seconds": "-1"}, "at least 0"),
        ({"sasl.oauthbearer.sub.claim.name": " "}, "not empty"),
        ({JAAS: "com.canary.Module required;"}, "is not org.apache.kafka"),
        ({f"{PREFIX}sasl.server.callback.handler.class": SIGNED_VALIDATOR}, "oauthbearer.sasl.server"),
        ({f"{PREFIX}oauthbearer.sasl.login.class": "x"}, "cannot be loaded"),
        (
            {HANDLER: UNSECURED_VALIDATOR, JAAS: f'{OAUTHBEARER_LOGIN_MODULE} required '
             'unsecuredValidatorAllowableClockSkewMs="canary";'},
            "is not a number",
        ),
    ],
)  # fmt: skip
def test_invalid_settings_are_refused(changes: dict[str, str | None], reason: str) -> None:
    assert reason in config_error(changes)
