"""OAUTHBEARER with Kafka's tools: tokens of an identity provider, sessions that end, rejected tokens."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.tools import KafkaTools
from tests.support.security.identity_provider import (
    AUDIENCE,
    KEYS_PATH,
    SECRET,
    TOKEN_PATH,
    IdentityProvider,
    claims,
    running_provider,
)
from tidelog.broker.config.oauthbearer_config import SIGNED_VALIDATOR
from tidelog.clients.security.oauthbearer.login_settings import LOGIN_HANDLER
from tidelog.security.jaas import OAUTHBEARER_LOGIN_MODULE
from tidelog.security.oauthbearer.allowed_resources import ALLOWED_URLS_VARIABLE
from tidelog.testing.embedded import EmbeddedCluster

LISTENER = "SASL_PLAINTEXT"


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    """Run a provider."""
    with running_provider() as running:
        yield running


@pytest.fixture(scope="module")
def tools(provider: IdentityProvider) -> Iterator[KafkaTools]:
    """Return tools for a broker that requires tokens; they may request tokens from the provider."""
    config = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class": SIGNED_VALIDATOR,
        "sasl.oauthbearer.jwks.endpoint.url": provider.url + KEYS_PATH,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={provider.url + TOKEN_PATH}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ALLOWED_URLS_VARIABLE, provider.url + KEYS_PATH)
        patch.setenv("JAVA_TOOL_OPTIONS", allowed)
        with EmbeddedCluster(config=config) as running:
            port = running.run(lambda node: node.bound_port(LISTENER))
            yield KafkaTools(Path(os.environ["TIDELOG_KAFKA_JARS"]), f"127.0.0.1:{port}")


@pytest.fixture
def properties(tmp_path: Path, provider: IdentityProvider) -> Path:
    """Return the configuration of a client with a client secret."""
    file = tmp_path / "client.properties"
    file.write_text(
        f"security.protocol={LISTENER}\n"
        "sasl.mechanism=OAUTHBEARER\n"
        f'sasl.jaas.config={OAUTHBEARER_LOGIN_MODULE} required extension_traceId="5";\n'
        f"sasl.login.callback.handler.class={LOGIN_HANDLER}\n"
        f"sasl.oauthbearer.token.endpoint.url={provider.url + TOKEN_PATH}\n"
        "sasl.oauthbearer.client.credentials.client.id=client\n"
        f"sasl.oauthbearer.client.credentials.client.secret={SECRET}\n"
    )
    return file


def test_console_clients_obtain_their_tokens(tools: KafkaTools, properties: Path) -> None:
    config = ("--command-config", str(properties))
    tools.run("kafka-topics", "--create", "--topic", "events", *config)
    tools.run("kafka-console-producer", "--topic", "events", *config, stdin="one\ntwo\n")
    consume = ("--topic", "events", "--from-beginning", "--max-messages", "2", *config)
    assert tools.run("kafka-console-consumer", *consume).split() == ["one", "two"]


def test_a_session_ends_with_its_token_and_the_client_authenticates_again(
    tools: KafkaTools, provider: IdentityProvider, properties: Path
) -> None:
    def short() -> dict[str, Any]:
        now_s = int(time.time())
        return claims(iat=now_s, exp=now_s + 6)

    provider.token_claims = short
    try:
        config = ("--command-config", str(properties))
        tools.run("kafka-topics", "--create", "--topic", "sessions", *config)
        requests = provider.count(TOKEN_PATH)
        load = ("--num-records", "90", "--record-size", "10", "--throughput", "10")
        output = tools.run("kafka-producer-perf-test", "--topic", "sessions", *load, *config)
        assert "90 records sent" in output
        assert provider.count(TOKEN_PATH) > requests + 1
    finally:
        provider.token_claims = claims


@pytest.mark.parametrize("changes", [{"aud": "other"}, {"sub": None, "client": "x"}])
def test_a_rejected_token_ends_the_tool(
    tools: KafkaTools, provider: IdentityProvider, properties: Path, changes: dict[str, Any]
) -> None:
    provider.token_claims = lambda: claims(**changes)
    with properties.open("a") as file:
        file.write("sasl.oauthbearer.sub.claim.name=client\n" if "client" in changes else "")
    try:
        ended = tools.call("kafka-topics", "--list", "--command-config", str(properties))
    finally:
        provider.token_claims = claims
    assert ended.returncode != 0
    assert '{"status":"invalid_token"}' in ended.stdout + ended.stderr
