"""The settings of a login with OAUTHBEARER: Kafka's keys, options and classes."""

from __future__ import annotations

from typing import Any

import pytest

from tidelog.base.config_definition import ConfigError
from tidelog.clients.config.client_config import ClientConfig
from tidelog.clients.security.oauthbearer.login_settings import (
    LOGIN_HANDLER,
    LOGIN_KEYS,
    UNSECURED_LOGIN_HANDLER,
    AssertionFile,
    AssertionSettings,
    ClientAssertion,
    ClientSecret,
    EndpointSource,
    FileSource,
    JwtBearer,
    LoginSettings,
    UnsecuredSource,
    login_settings,
)
from tidelog.security.oauthbearer.allowed_resources import AllowedResources

URL, FILE_URL = "https://id.example/token", "file:///run/token"
ALLOWED = AllowedResources(
    urls=frozenset({URL, FILE_URL}), files=frozenset({"/run/assertion", "/run/key.pem", "/run/template.json"})
)
PREFIX = "sasl.oauthbearer."
CLASSES = "org.apache.kafka.common.security.oauthbearer."
ID, SECRET = f"{PREFIX}client.credentials.client.id", f"{PREFIX}client.credentials.client.secret"
CREDENTIALS = {ID: "client", SECRET: "canary"}


def settings(changes: dict[str, Any], options: dict[str, str] | None = None) -> LoginSettings:
    defaults = ClientConfig()
    values = {key: getattr(defaults, key.replace(".", "_")) for key in LOGIN_KEYS}
    endpoint_settings = {
        "sasl.login.callback.handler.class": LOGIN_HANDLER,
        f"{PREFIX}token.endpoint.url": URL,
    }
    result = login_settings({**values, **endpoint_settings, **changes}.__getitem__, options or {}, ALLOWED)
    assert "canary" not in repr(result)
    return result


def endpoint(changes: dict[str, Any], options: dict[str, str] | None = None) -> EndpointSource:
    source = settings(changes, options).source
    assert isinstance(source, EndpointSource)
    return source


def settings_error(changes: dict[str, Any], options: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as raised:
        settings(changes, options)
    assert "canary" not in str(raised.value)
    return str(raised.value)


def test_client_credentials_of_the_keys() -> None:
    source = endpoint({**CREDENTIALS, f"{PREFIX}scope": "read"})
    assert source.grant == ClientSecret(client_id="client", client_secret="canary", is_url_encoded=False)
    assert (source.url, source.scope) == (URL, "read")
    assert (source.retry_backoff_ms, source.retry_max_ms) == (100, 10_000)


def test_client_credentials_of_the_jaas_config_are_used_without_keys() -> None:
    options = {"clientId": "old", "clientSecret": "canary-old", "scope": "all", "extension_traceId": "1"}
    source = endpoint({}, options)
    assert isinstance(source.grant, ClientSecret)
    assert (source.grant.client_id, source.grant.client_secret, source.scope) == ("old", "canary-old", "all")
    grant = endpoint(CREDENTIALS, options).grant
    assert isinstance(grant, ClientSecret) and grant.client_id == "client"
    assert settings({}, options).extensions == {"traceId": "1"}


def test_a_file_url_is_a_token_in_a_file() -> None:
    for retriever in ("DefaultJwtRetriever", "FileJwtRetriever"):
        changes = {
            f"{PREFIX}token.endpoint.url": FILE_URL,
            f"{PREFIX}jwt.retriever.class": CLASSES + retriever,
        }
        assert settings(changes).source == FileSource(path="/run/token")


def test_an_assertion_replaces_the_secret() -> None:
    grant = endpoint({**CREDENTIALS, f"{PREFIX}assertion.file": "/run/assertion"}).grant
    assert grant == ClientAssertion(client_id="client", assertion=AssertionFile(path="/run/assertion"))
    created = endpoint(
        {
            f"{PREFIX}assertion.claim.iss": "me",
            f"{PREFIX}assertion.private.key.file": "/run/key.pem",
            f"{PREFIX}assertion.private.key.passphrase": "canary",
            f"{PREFIX}assertion.algorithm": "es256",
        }
    ).grant
    assert isinstance(created, ClientAssertion) and isinstance(created.assertion, AssertionSettings)
    assert (created.assertion.algorithm, created.assertion.claims) == ("ES256", {"iss": "me"})


def test_the_jwt_bearer_retriever_signs_assertions() -> None:
    changes = {
        f"{PREFIX}jwt.retriever.class": f"{CLASSES}JwtBearerJwtRetriever",
        f"{PREFIX}assertion.private.key.file": "/run/key.pem",
        f"{PREFIX}assertion.template.file": "/run/template.json",
    }
    grant = endpoint(changes).grant
    assert isinstance(grant, JwtBearer) and isinstance(grant.assertion, AssertionSettings)
    assert (grant.assertion.template_file, grant.assertion.expires_s) == ("/run/template.json", 300)


def test_without_a_handler_tokens_are_unsecured_as_in_kafka() -> None:
    options = {"unsecuredLoginStringClaim_sub": "alice", "unsecuredLoginExtension_traceId": "1"}
    for handler in (None, UNSECURED_LOGIN_HANDLER):
        changes = {"sasl.login.callback.handler.class": handler, f"{PREFIX}token.endpoint.url": None}
        login = settings(changes, options)
        assert isinstance(login.source, UnsecuredSource) and login.extensions == {"traceId": "1"}


@pytest.mark.parametrize(
    ("changes", "options", "reason"),
    [
        ({}, {}, "client.id"),
        ({ID: "client"}, {}, "client.secret"),
        ({"sasl.login.callback.handler.class": None}, {}, LOGIN_HANDLER),
        ({"sasl.login.callback.handler.class": "com.example.Login"}, {}, "allowed are"),
        ({f"{PREFIX}jwt.retriever.class": "com.example.Retriever"}, {}, "allowed are"),
        ({f"{PREFIX}token.endpoint.url": None}, {}, "the URL is required"),
        ({f"{PREFIX}jwt.retriever.class": f"{CLASSES}FileJwtRetriever"}, {}, "needs a URL with file"),
        (
            {
                f"{PREFIX}jwt.retriever.class": f"{CLASSES}ClientCredentialsJwtRetriever",
                f"{PREFIX}token.endpoint.url": FILE_URL,
            },
            {},
            "needs a URL with https",
        ),
        ({f"{PREFIX}jwt.retriever.class": f"{CLASSES}JwtBearerJwtRetriever"}, {}, "private.key.file"),
        (CREDENTIALS, {"extension_auth": "canary"}, "the extension name 'auth' is invalid"),
        (CREDENTIALS, {"ssl.truststore.type": "JKS", "ssl.truststore.location": "/x"}, "keytool"),
        ({**CREDENTIALS, "sasl.login.refresh.window.factor": 0.4}, {}, "0.5 to 1.0"),
        ({**CREDENTIALS, "sasl.login.refresh.buffer.seconds": "x"}, {}, "0 to 3600"),
    ],
)
def test_settings_that_cannot_be_used(changes: dict[str, Any], options: dict[str, str], reason: str) -> None:
    assert reason in settings_error(changes, options)


def test_cve_2025_27817_a_client_reads_and_requests_only_what_is_allowed() -> None:
    for url in ("file:///etc/passwd", "http://169.254.169.254/", URL + "?x=y"):
        text = settings_error({**CREDENTIALS, f"{PREFIX}token.endpoint.url": url})
        assert "TIDELOG_SASL_OAUTHBEARER_ALLOWED_URLS" in text
    for part in ("file", "private.key.file", "template.file"):
        changes = {
            f"{PREFIX}assertion.claim.iss": "me",
            f"{PREFIX}assertion.private.key.file": "/run/key.pem",
        }
        text = settings_error({**changes, f"{PREFIX}assertion.{part}": "/etc/passwd"})
        assert "TIDELOG_SASL_OAUTHBEARER_ALLOWED_FILES" in text
