"""The TLS settings of a client, from its options."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from tidelog.clients.config.client_config import ClientConfig
from tidelog.clients.config.options import ConfigError
from tidelog.clients.config.tls import context_source
from tidelog.security.certificate_authority import Authority

AUTHORITY = Authority.create()
TRUSTED: dict[str, Any] = {"ssl_truststore_type": "PEM", "ssl_truststore_certificates": AUTHORITY.pem()}


def test_no_tls_context_without_tls() -> None:
    assert context_source(ClientConfig(**TRUSTED)) is None


def test_options_are_kafkas_keys() -> None:
    source = context_source(
        ClientConfig(
            security_protocol="SSL",
            ssl_enabled_protocols="TLSv1.3",
            ssl_endpoint_identification_algorithm="",
            **TRUSTED,
        )
    )
    assert source is not None
    context = source()
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    assert context.verify_mode is ssl.CERT_REQUIRED and not context.check_hostname
    assert context.cert_store_stats()["x509"] == 1


def test_system_certificates_are_trusted_without_a_trust_store() -> None:
    source = context_source(ClientConfig(security_protocol="SSL"))
    assert source is not None
    assert source().verify_mode is ssl.CERT_REQUIRED and source().check_hostname


@pytest.mark.parametrize("is_function", [True, False])
def test_a_context_of_the_application_is_used(is_function: bool) -> None:
    own = ssl.create_default_context()
    ssl_context: Any = (lambda: own) if is_function else own
    source = context_source(ClientConfig(security_protocol="SSL", ssl_context=ssl_context))
    assert source is not None and source() is own


@pytest.mark.parametrize(
    "options, problem",
    [
        ({"ssl_truststore_location": "a.jks"}, "keytool -importkeystore"),
        ({"ssl_truststore_location": "/no/file", "ssl_truststore_type": "PEM"}, "cannot read the file"),
        ({"ssl_keystore_password": "canary"}, "allowed only with ssl.keystore.location"),
        ({"ssl_protocol": "SSLv3"}, "ssl.protocol=SSLv3"),
        ({**TRUSTED, "ssl_truststore_password": "canary"}, "not allowed with the type PEM"),
    ],
)
def test_an_invalid_option_is_refused_without_showing_secrets(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        context_source(ClientConfig(security_protocol="SSL", **options))
    assert problem in str(raised.value) and "canary" not in str(raised.value)


def test_secrets_are_not_shown() -> None:
    config = ClientConfig(
        ssl_key_password="canary",
        ssl_keystore_key="canary",
        ssl_keystore_password="canary",
        ssl_truststore_password="canary",
    )
    assert "canary" not in repr(config)
