"""The credentials for other nodes: one login for equal settings, changes for the next authentications."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.security.identity_provider import KEYS_PATH, TOKEN_PATH, IdentityProvider, running_provider
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.config.oauthbearer_config import SIGNED_VALIDATOR
from tidelog.broker.node.wiring.peer_authentication import PeerAuthentication
from tidelog.clients.config.environment import SystemEnvironment
from tidelog.clients.security.oauthbearer.login_settings import LOGIN_HANDLER
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.security.jaas import OAUTHBEARER_LOGIN_MODULE, PLAIN_LOGIN_MODULE
from tidelog.security.oauthbearer.allowed_resources import ALLOWED_URLS_VARIABLE

BROKERS, CONTROLLERS = "INTERNAL", "CONTROLLER"
BASE = {
    "node.id": "1",
    "listeners": "INTERNAL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "advertised.listeners": "INTERNAL://127.0.0.1:0",
    "listener.security.protocol.map": "INTERNAL:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "inter.broker.listener.name": BROKERS,
    "controller.listener.names": CONTROLLERS,
}


class RecordingConnection:
    """A connection that records the mechanism of each handshake, and refuses it."""

    peer = "node 2"

    def __init__(self) -> None:
        self.mechanisms: list[str] = []

    async def request(self, message: Any, response: object) -> Any:
        self.mechanisms.append(message.mechanism)
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "refused")


async def authenticate(peers: PeerAuthentication, listener: str, connection: Any = None) -> str:
    """Authenticate once to `listener`; return the mechanism."""
    used: Any = connection or RecordingConnection()
    authenticator = peers.authenticator(listener)
    assert authenticator is not None
    with pytest.raises(KafkaError, match="refused"):
        await authenticator.authenticate(used)
    return str(used.mechanisms[-1])


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[IdentityProvider]:
    """Run an identity provider and allow its URLs."""
    with running_provider() as running:
        monkeypatch.setenv(ALLOWED_URLS_VARIABLE, f"{running.url}{KEYS_PATH},{running.url}{TOKEN_PATH}")
        yield running


def with_tokens(provider: IdentityProvider, secrets: dict[str, str]) -> BrokerConfig:
    """All listeners require tokens; the client secrets are by listener."""
    config = {
        **BASE,
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "sasl.mechanism.controller.protocol": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": provider.url + KEYS_PATH,
        "sasl.oauthbearer.token.endpoint.url": provider.url + TOKEN_PATH,
    }
    for listener, secret in secrets.items():
        prefix = f"listener.name.{listener.lower()}.oauthbearer.sasl."
        jaas = f'{OAUTHBEARER_LOGIN_MODULE} required clientId="node" clientSecret="{secret}";'
        config[f"{prefix}jaas.config"] = jaas
        config[f"{prefix}server.callback.handler.class"] = SIGNED_VALIDATOR
        config[f"{prefix}login.callback.handler.class"] = LOGIN_HANDLER
    return BrokerConfig(config)


def authorization(secret: str) -> str:
    return f"Basic {b64encode(f'node:{secret}'.encode()).decode()}"


async def test_listeners_with_the_same_settings_share_one_token(provider: IdentityProvider) -> None:
    peers = PeerAuthentication(with_tokens(provider, {BROKERS: "s", CONTROLLERS: "s"}), SystemEnvironment())
    for listener in (BROKERS, CONTROLLERS, BROKERS):
        assert await authenticate(peers, listener) == "OAUTHBEARER"
    assert provider.count(TOKEN_PATH) == 1


async def test_listeners_with_different_settings_have_tokens_of_their_own(provider: IdentityProvider) -> None:
    peers = PeerAuthentication(with_tokens(provider, {BROKERS: "s", CONTROLLERS: "t"}), SystemEnvironment())
    for listener in (BROKERS, CONTROLLERS, BROKERS):
        await authenticate(peers, listener)
    assert provider.authorizations == [authorization("s"), authorization("t")]


async def test_a_changed_client_secret_is_used_for_the_next_authentication(
    provider: IdentityProvider,
) -> None:
    peers = PeerAuthentication(with_tokens(provider, {BROKERS: "s", CONTROLLERS: "s"}), SystemEnvironment())
    for listener in (BROKERS, CONTROLLERS):
        await authenticate(peers, listener)
    peers.apply(with_tokens(provider, {BROKERS: "new", CONTROLLERS: "s"}))
    await authenticate(peers, BROKERS)
    await authenticate(peers, CONTROLLERS)
    # The other listener keeps the shared login, and its token.
    assert provider.authorizations == [authorization("s"), authorization("new")]


def with_passwords(mechanism: str) -> BrokerConfig:
    module = f'{PLAIN_LOGIN_MODULE} required username="node" password="s" user_node="s";'
    scram = module.replace("plain.Plain", "scram.Scram")
    return BrokerConfig(
        {
            **BASE,
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "sasl.mechanism.inter.broker.protocol": mechanism,
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.internal.plain.sasl.jaas.config": module,
            "listener.name.internal.scram-sha-512.sasl.jaas.config": scram,
            "listener.name.controller.plain.sasl.jaas.config": module,
        }
    )


async def test_a_connection_keeps_its_mechanism_and_new_ones_have_the_changed_one() -> None:
    peers = PeerAuthentication(with_passwords("PLAIN"), SystemEnvironment())
    connection = RecordingConnection()
    assert await authenticate(peers, BROKERS, connection) == "PLAIN"
    peers.apply(with_passwords("SCRAM-SHA-512"))
    assert await authenticate(peers, BROKERS, connection) == "PLAIN"
    assert await authenticate(peers, BROKERS) == "SCRAM-SHA-512"
    assert await authenticate(peers, CONTROLLERS) == "PLAIN"


async def test_credentials_that_cannot_be_used_do_not_replace_the_former_ones(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = with_passwords("PLAIN")
    peers = PeerAuthentication(config, SystemEnvironment())
    await authenticate(peers, BROKERS)
    key = "listener.name.internal.plain.sasl.jaas.config"
    # Stored by a node that does not check it.
    config.explicit = {**config.explicit, key: "canary ("}
    peers.apply(config)
    assert await authenticate(peers, BROKERS) == "PLAIN"
    assert key in caplog.text and "keeping the former credentials" in caplog.text
    assert "canary" not in caplog.text


def test_a_listener_without_sasl_has_no_authenticator() -> None:
    config = BrokerConfig({"node.id": "1", "listeners": "PLAINTEXT://127.0.0.1:0"})
    assert PeerAuthentication(config, SystemEnvironment()).authenticator("PLAINTEXT") is None
