"""OAUTHBEARER with librdkafka, aiokafka and kafka-python, with tokens of an identity provider."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient
from kafka.net.sasl.oauth import AbstractTokenProvider

from tests.support.foreign_clients.round_trips import (
    aiokafka_round_trip,
    confluent_round_trip,
    kafka_python_round_trip,
)
from tests.support.security.identity_provider import (
    AUDIENCE,
    ISSUER,
    KEYS_PATH,
    SECRET,
    TOKEN_PATH,
    IdentityProvider,
    SigningKey,
    claims,
    running_provider,
    unsecured_token,
)
from tests.support.waiting import TIMEOUT_S, wait_until_passes
from tidelog.broker.config.oauthbearer_config import SIGNED_VALIDATOR, UNSECURED_VALIDATOR
from tidelog.security.oauthbearer.allowed_resources import ALLOWED_URLS_VARIABLE
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop

LISTENER = "SASL_PLAINTEXT"
PREFIX = "listener.name.sasl_plaintext.oauthbearer."
KEY = SigningKey()
ROTATED, UNKNOWN = SigningKey("key-2", number=2), SigningKey("key-3", number=3)
FORGED = SigningKey(KEY.key_id, number=3)
BASE = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "connection.failed.authentication.delay.ms": "20",
}

Access = Callable[[str, str], int]
"""Produces and reads one record with a token; returns the number of records, or raises PermissionError."""


@dataclass(frozen=True)
class SecuredNodes:
    """A broker and its identity provider."""

    cluster: EmbeddedCluster
    provider: IdentityProvider

    @property
    def servers(self) -> str:
        """Return the listener that requires tokens."""
        return f"127.0.0.1:{self.cluster.run(lambda node: node.bound_port(LISTENER))}"


@pytest.fixture(scope="module")
def secured() -> Iterator[SecuredNodes]:
    """Run a broker that verifies tokens with the keys of a provider."""
    with running_provider() as provider, pytest.MonkeyPatch.context() as patch:
        url = provider.url + KEYS_PATH
        patch.setenv(ALLOWED_URLS_VARIABLE, url)
        config = {
            **BASE,
            f"{PREFIX}sasl.server.callback.handler.class": SIGNED_VALIDATOR,
            "sasl.oauthbearer.jwks.endpoint.url": url,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:alice;User:ANONYMOUS",
        }
        with EmbeddedCluster(config=config) as cluster:
            yield SecuredNodes(cluster, provider)


def options_of(servers: str) -> dict[str, Any]:
    """Return the options of librdkafka without a token."""
    return {
        "bootstrap.servers": servers,
        "security.protocol": LISTENER,
        "sasl.mechanism": "OAUTHBEARER",
        "log_level": 0,
    }


def with_confluent(servers: str, token: str) -> int:
    options = {**options_of(servers), "oauth_cb": lambda _: (token, time.time() + 3600)}
    return confluent_round_trip(options)


def with_kafka_python(servers: str, token: str) -> int:
    class Provider(AbstractTokenProvider):
        def token(self) -> str:
            return token

    return kafka_python_round_trip(python_options(servers, Provider()))


def with_aiokafka(servers: str, token: str) -> int:
    class Provider(AioTokenProvider):
        async def token(self) -> str:
            return token

    return aiokafka_round_trip(python_options(servers, Provider()))


def python_options(servers: str, provider: AbstractTokenProvider | AioTokenProvider) -> dict[str, Any]:
    """Return the options of kafka-python and aiokafka, which have the same names."""
    return {
        "bootstrap_servers": servers,
        "security_protocol": LISTENER,
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": provider,
    }


ACCESS: dict[str, Access] = {
    "confluent": with_confluent,
    "kafka_python": with_kafka_python,
    "aiokafka": with_aiokafka,
}


@pytest.mark.parametrize("client", ACCESS)
def test_a_valid_token_gives_access(secured: SecuredNodes, client: str) -> None:
    assert ACCESS[client](secured.servers, KEY.sign(claims())) == 1


def rejected_tokens() -> dict[str, str]:
    now_s = int(time.time())
    return {
        "expired": KEY.sign(claims(exp=now_s - 60, iat=now_s - 120)),
        "audience": KEY.sign(claims(aud="other")),
        "issuer": KEY.sign(claims(iss="https://other.example")),
        "unknown key": UNKNOWN.sign(claims()),
        "signature": FORGED.sign(claims()),
        "unsecured": unsecured_token(claims()),
        "garbage": "garbage",
        "oversized": KEY.sign(claims(padding="x" * 70_000)),
    }


@pytest.mark.parametrize("kind", rejected_tokens())
def test_other_tokens_give_no_access(secured: SecuredNodes, kind: str) -> None:
    with pytest.raises(PermissionError):
        with_aiokafka(secured.servers, rejected_tokens()[kind])


@pytest.mark.parametrize("client", ACCESS)
@pytest.mark.parametrize("kind", ["signature", "expired"])
def test_no_client_gets_access_with_a_rejected_token(secured: SecuredNodes, client: str, kind: str) -> None:
    with pytest.raises(PermissionError):
        ACCESS[client](secured.servers, rejected_tokens()[kind])


def test_librdkafka_obtains_its_token_from_the_provider(secured: SecuredNodes) -> None:
    oidc = {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "client",
        "sasl.oauthbearer.client.secret": SECRET,
        "sasl.oauthbearer.token.endpoint.url": secured.provider.url + TOKEN_PATH,
        "sasl.oauthbearer.extensions": "traceId=123",
    }
    assert confluent_round_trip({**options_of(secured.servers), **oidc}) == 1


def test_a_rotated_key_is_accepted_without_a_restart(secured: SecuredNodes) -> None:
    secured.provider.keys = [KEY, ROTATED]
    # The first connection causes the fetch of the keys, and librdkafka connects again.
    options: dict[str, Any] = {"oauth_cb": lambda _: (ROTATED.sign(claims()), time.time() + 3600)}
    producer = Producer({**options_of(secured.servers), **options})
    producer.produce(f"topic-{uuid4().hex[:12]}", b"value")
    assert producer.flush(TIMEOUT_S) == 0


def test_a_session_ends_with_its_token_and_librdkafka_authenticates_again(secured: SecuredNodes) -> None:
    def write_during_two_tokens() -> None:
        tokens: list[str] = []

        def token(_: str) -> tuple[str, float]:
            now_s = time.time()
            tokens.append(KEY.sign(claims(iat=now_s, exp=now_s + 4)))
            # librdkafka checks each second if it must replace its token.
            return tokens[-1], now_s + 2

        errors: list[KafkaError] = []
        producer = Producer({**options_of(secured.servers), "oauth_cb": token, "error_cb": errors.append})
        topic, ends = f"topic-{uuid4().hex[:12]}", time.monotonic() + 5.5
        while time.monotonic() < ends:
            producer.produce(topic, b"value")
            assert producer.flush(TIMEOUT_S) == 0
            producer.poll(0.1)
        assert errors == [] and len(tokens) >= 2

    # A client that is not scheduled for a while authenticates too late: then its session has ended.
    wait_until_passes(write_during_two_tokens)


def test_the_principal_is_the_subject_of_the_token(secured: SecuredNodes) -> None:
    def topics(subject: str) -> set[str]:
        token = KEY.sign(claims(sub=subject))
        options = options_of(secured.servers)
        options["oauth_cb"] = lambda _: (token, time.time() + 3600)
        admin = AdminClient(options)
        admin.poll(0)
        return set(admin.list_topics(timeout=TIMEOUT_S).topics)

    assert with_aiokafka(secured.servers, KEY.sign(claims())) == 1
    assert topics("alice") and topics("bob") == set()


def test_unsecured_tokens_are_accepted_only_if_the_validator_is_named() -> None:
    config = {**BASE, f"{PREFIX}sasl.server.callback.handler.class": UNSECURED_VALIDATOR}
    with EmbeddedCluster(config=config) as cluster:
        servers = f"127.0.0.1:{cluster.run(lambda node: node.bound_port(LISTENER))}"
        assert with_aiokafka(servers, unsecured_token(claims())) == 1
        options = {"enable.sasl.oauthbearer.unsecure.jwt": True, "sasl.oauthbearer.config": "principal=alice"}
        assert confluent_round_trip({**options_of(servers), **options}) == 1
        with pytest.raises(PermissionError):
            with_aiokafka(servers, KEY.sign(claims()))
