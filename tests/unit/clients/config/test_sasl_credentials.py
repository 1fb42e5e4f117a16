"""Credentials of a client: from a JAAS config, and never shown."""

from __future__ import annotations

import traceback

import pytest

from tidelog.clients.config.client_config import ClientConfig
from tidelog.clients.config.options import ConfigError
from tidelog.clients.config.sasl_credentials import parse_credentials
from tidelog.security.jaas import PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE, JaasError

SECRET = "canary-90be"
JAAS = f'{SCRAM_LOGIN_MODULE} required username="alice" password="{SECRET}";'


def test_a_jaas_config_has_user_and_password() -> None:
    credentials = parse_credentials("SCRAM-SHA-512", JAAS)
    assert (credentials.mechanism, credentials.user, credentials.password) == (
        "SCRAM-SHA-512",
        "alice",
        SECRET,
    )
    assert SECRET not in repr(credentials)


@pytest.mark.parametrize(
    ("option", "is_token"), [("true", True), ("TRUE", True), ("false", False), ("1", False)]
)
def test_tokenauth_marks_a_delegation_token(option: str, is_token: bool) -> None:
    jaas = JAAS.replace(";", f' tokenauth="{option}";')
    assert parse_credentials("SCRAM-SHA-256", jaas).is_token is is_token
    plain = jaas.replace(SCRAM_LOGIN_MODULE, PLAIN_LOGIN_MODULE)
    assert not parse_credentials("PLAIN", plain).is_token


@pytest.mark.parametrize(
    "text",
    [
        JAAS.replace("username", "user"),
        JAAS.replace("password=", "secret="),
        JAAS.replace(SCRAM_LOGIN_MODULE, PLAIN_LOGIN_MODULE),
        JAAS[:-1],
    ],
)
def test_a_config_that_cannot_be_used(text: str) -> None:
    with pytest.raises(JaasError) as raised:
        parse_credentials("SCRAM-SHA-256", text)
    assert SECRET not in "".join(traceback.format_exception(raised.value))


def test_a_client_with_sasl_has_the_credentials_of_its_jaas_config() -> None:
    config = ClientConfig(
        security_protocol="SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-256", sasl_jaas_config=JAAS
    )
    assert config.sasl_credentials is not None and config.sasl_credentials.user == "alice"
    assert SECRET not in repr(config)
    assert ClientConfig(sasl_jaas_config=JAAS).sasl_credentials is None


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({"sasl_mechanism": "GSSAPI"}, "sasl_mechanism"),
        ({"sasl_mechanism": "PLAIN"}, "sasl_jaas_config"),
        ({"sasl_jaas_config": JAAS[:-1]}, "sasl_jaas_config"),
        ({"security_protocol": "SASL"}, "security_protocol"),
    ],
)
def test_options_that_cannot_be_used(changes: dict[str, str], option: str) -> None:
    options = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_jaas_config": JAAS,
        **changes,
    }
    with pytest.raises(ConfigError) as raised:
        ClientConfig(**options)  # type: ignore[arg-type]
    assert raised.value.option == option
    assert SECRET not in "".join(traceback.format_exception(raised.value)) + str(raised.value.value)
