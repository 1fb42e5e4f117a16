"""OAUTHBEARER of our clients and between our nodes: three nodes whose listeners all require tokens."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.own_clients import RECORDS, produce_for, transactional_round_trip
from tests.support.nodes.three_nodes import ThreeNodes
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
)
from tests.support.security.oauth_listener import oauth_listener
from tests.support.waiting import wait_until
from tidelog.broker.config.oauthbearer_config import UNSECURED_VALIDATOR
from tidelog.clients.admin.admin import Admin
from tidelog.clients.admin.types import ConfigResource, ResourceType
from tidelog.clients.security.oauthbearer.login_settings import LOGIN_HANDLER
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.security.jaas import OAUTHBEARER_LOGIN_MODULE
from tidelog.security.oauthbearer.allowed_resources import ALLOWED_FILES_VARIABLE, ALLOWED_URLS_VARIABLE
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop

NODE_SECRET = "canary-node-4e"
RETRIEVER = "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever"
KEY = SigningKey()
Options = dict[str, Any]


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    """Run a provider whose tokens are valid for 6 s, so that sessions end while the tests run."""

    def short_claims() -> dict[str, Any]:
        now_s = time.time()
        return claims(iat=now_s, exp=now_s + 6)

    with running_provider() as running:
        running.token_claims = short_claims
        yield running


@pytest.fixture(scope="module")
def cluster(
    provider: IdentityProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedCluster]:
    """Run three nodes, each of them broker and controller."""
    folder = tmp_path_factory.mktemp("files")
    config = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "sasl.mechanism.controller.protocol": "OAUTHBEARER",
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.clock.skew.seconds": "1",
        "connection.failed.authentication.delay.ms": "20",
        **oauth_listener("plaintext", provider, "node", NODE_SECRET),
        **oauth_listener("controller", provider, "node", NODE_SECRET),
    }
    (folder / "token").write_text(KEY.sign(claims()) + "\n")
    (folder / "key.pem").write_bytes(KEY.private.as_pem(private=True))
    urls = (provider.url + KEYS_PATH, provider.url + TOKEN_PATH, (folder / "token").as_uri())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ALLOWED_URLS_VARIABLE, ",".join(urls))
        patch.setenv(ALLOWED_FILES_VARIABLE, str(folder / "key.pem"))
        with EmbeddedCluster(nodes=3, config=config) as running:
            wait_until(lambda: len(ThreeNodes(running).brokers()) == 3)
            running.folder = folder  # type: ignore[attr-defined]
            yield running


def options(cluster: EmbeddedCluster, **changes: Any) -> Options:
    return {
        "bootstrap_servers": cluster.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        **changes,
    }


def endpoint(cluster: EmbeddedCluster, provider: IdentityProvider, **changes: Any) -> Options:
    return options(
        cluster,
        sasl_login_callback_handler_class=LOGIN_HANDLER,
        sasl_oauthbearer_token_endpoint_url=provider.url + TOKEN_PATH,
        sasl_oauthbearer_client_credentials_client_id="client",
        sasl_oauthbearer_client_credentials_client_secret=SECRET,
        **changes,
    )


async def topics(client_options: Options) -> set[str]:
    async with Admin(**client_options) as admin:
        return set(await admin.list_topics())


def test_records_are_replicated_and_read(cluster: EmbeddedCluster, provider: IdentityProvider) -> None:
    assert asyncio.run(transactional_round_trip(endpoint(cluster, provider))) == list(range(RECORDS))


def test_tokens_are_replaced_and_sessions_continue(
    cluster: EmbeddedCluster, provider: IdentityProvider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    requests = provider.count(TOKEN_PATH)
    asyncio.run(produce_for(endpoint(cluster, provider), 8))
    assert provider.count(TOKEN_PATH) > requests + 1
    assert "expired" not in caplog.text


def test_other_sources_of_tokens(cluster: EmbeddedCluster, provider: IdentityProvider) -> None:
    folder: Path = cluster.folder  # type: ignore[attr-defined]
    credentials = f'clientId="client" clientSecret="{SECRET}"'
    jaas = f'{OAUTHBEARER_LOGIN_MODULE} required {credentials} extension_traceId="5";'
    sources: dict[str, Options] = {
        "function": options(cluster, oauth_token_provider=lambda: KEY.sign(claims())),
        "file": options(
            cluster,
            sasl_login_callback_handler_class=LOGIN_HANDLER,
            sasl_oauthbearer_token_endpoint_url=(folder / "token").as_uri(),
        ),
        "jaas": options(
            cluster,
            sasl_login_callback_handler_class=LOGIN_HANDLER,
            sasl_oauthbearer_token_endpoint_url=provider.url + TOKEN_PATH,
            sasl_jaas_config=jaas,
        ),
        "jwt-bearer": options(
            cluster,
            sasl_login_callback_handler_class=LOGIN_HANDLER,
            sasl_oauthbearer_token_endpoint_url=provider.url + TOKEN_PATH,
            sasl_oauthbearer_jwt_retriever_class=RETRIEVER,
            sasl_oauthbearer_assertion_private_key_file=str(folder / "key.pem"),
            sasl_oauthbearer_assertion_claim_iss="client",
        ),
    }
    for name, client_options in sources.items():
        assert isinstance(asyncio.run(topics(client_options)), set), name


@pytest.mark.parametrize(
    "changes",
    [{"exp": 1, "iat": 0}, {"aud": "other"}, {"iss": "https://other.example"}],
)
def test_a_rejected_token_ends_an_operation_at_once(cluster: EmbeddedCluster, changes: Options) -> None:
    token = KEY.sign(claims(**changes))
    with pytest.raises(KafkaError, match="invalid_token") as raised:
        asyncio.run(topics(options(cluster, oauth_token_provider=lambda: (token, time.time() + 60))))
    assert raised.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert token not in "".join(traceback.format_exception(raised.value))


def test_a_wrong_client_secret_ends_an_operation_at_once(
    cluster: EmbeddedCluster, provider: IdentityProvider
) -> None:
    client_options = endpoint(cluster, provider)
    with running_provider() as other, pytest.MonkeyPatch.context() as patch:
        other.response_to = lambda path: (401, b'{"error": "invalid_client"}')
        patch.setenv(ALLOWED_URLS_VARIABLE, other.url)
        client_options["sasl_oauthbearer_token_endpoint_url"] = other.url
        with pytest.raises(KafkaError, match="HTTP status 401, invalid_client") as raised:
            asyncio.run(topics(client_options))
    assert raised.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "canary" not in "".join(traceback.format_exception(raised.value))


def test_no_secret_and_no_token_is_logged_or_described(
    cluster: EmbeddedCluster,
    provider: IdentityProvider,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    client_options, token = endpoint(cluster, provider), KEY.sign(claims(aud="other"))

    async def run() -> str:
        async with Admin(**client_options) as admin:
            text = repr(admin.config)
            return text + repr(await admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]))

    text = asyncio.run(run())
    with pytest.raises(KafkaError):
        asyncio.run(topics(options(cluster, oauth_token_provider=lambda: token)))
    text += repr(cluster.run(lambda node: node.services.config))
    captured = capfd.readouterr()
    everything = text + caplog.text + captured.out + captured.err
    assert "sasl.oauthbearer.client.credentials.client.secret" in text
    assert "canary" not in everything
    assert token.split(".")[1] not in everything and "the audience 'other'" in caplog.text


def test_unsecured_tokens_of_our_client() -> None:
    handler = "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class"
    config = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        handler: UNSECURED_VALIDATOR,
    }
    jaas = f'{OAUTHBEARER_LOGIN_MODULE} required unsecuredLoginStringClaim_sub="alice";'
    with EmbeddedCluster(config=config) as running:
        port = running.run(lambda node: node.bound_port("SASL_PLAINTEXT"))
        client_options = options(running, sasl_jaas_config=jaas, bootstrap_servers=f"127.0.0.1:{port}")
        assert asyncio.run(topics(client_options)) == set()
