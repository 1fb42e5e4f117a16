"""Where tokens come from: the trust stores of changed credentials are read when they are needed."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.security.identity_provider import SigningKey, claims
from tidelog.clients.config.client_config import ClientConfig
from tidelog.clients.config.environment import SystemEnvironment
from tidelog.clients.security.oauthbearer import token_sources
from tidelog.clients.security.oauthbearer.login_settings import (
    LOGIN_HANDLER,
    LOGIN_KEYS,
    LoginSettings,
    login_settings,
)
from tidelog.clients.security.oauthbearer.token_requests import TokenRetrievalError
from tidelog.clients.security.oauthbearer.token_sources import DeferredRetriever, TokenRetriever
from tidelog.security.certificate_authority import Authority
from tidelog.security.oauthbearer.allowed_resources import AllowedResources

URL = "https://127.0.0.1:1/token"


def settings(url: str, options: dict[str, str] | None = None) -> LoginSettings:
    defaults = ClientConfig()
    values: dict[str, Any] = {key: getattr(defaults, key.replace(".", "_")) for key in LOGIN_KEYS} | {
        "sasl.login.callback.handler.class": LOGIN_HANDLER,
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.oauthbearer.client.credentials.client.id": "client",
        "sasl.oauthbearer.client.credentials.client.secret": "canary",
        "sasl.login.retry.backoff.max.ms": 0,
    }
    return login_settings(values.__getitem__, options or {}, AllowedResources(urls=frozenset({url})))


def settings_with_trust(path: Path) -> LoginSettings:
    return settings(URL, {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(path)})


async def test_nothing_is_read_before_the_first_token_is_requested(tmp_path: Path) -> None:
    retriever = DeferredRetriever(settings_with_trust(tmp_path / "missing.pem"), SystemEnvironment())
    with pytest.raises(TokenRetrievalError, match=r"missing\.pem"):
        await retriever.retrieve()


async def test_a_trust_store_that_cannot_be_used_is_read_again_at_the_next_request(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    retriever = DeferredRetriever(settings_with_trust(path), SystemEnvironment())
    with pytest.raises(TokenRetrievalError, match=r"ca\.pem") as error:
        await retriever.retrieve()
    assert error.value.is_retriable
    assert "canary" not in str(error.value)
    Authority.create("test CA").write(path)
    with pytest.raises(TokenRetrievalError, match="cannot obtain a token from"):
        await retriever.retrieve()


async def test_the_trust_store_is_read_in_a_thread_and_only_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "token"
    path.write_text(SigningKey("RS256").sign(claims(NOW_MS)))
    threads: list[int] = []
    create = token_sources.token_retriever

    def record_call(login: LoginSettings, environment: SystemEnvironment) -> TokenRetriever:
        threads.append(threading.get_ident())
        return create(login, environment)

    monkeypatch.setattr(token_sources, "token_retriever", record_call)
    retriever = DeferredRetriever(settings(f"file://{path}"), SystemEnvironment())
    tokens = [await retriever.retrieve() for _ in range(3)]
    assert [each.value for each in tokens] == [path.read_text()] * 3
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()
