"""The token of a client: shared, replaced before it expires, kept while the provider fails."""

from __future__ import annotations

import asyncio
import logging
import random

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.security.identity_provider import SigningKey, claims
from tidelog.clients.config.environment import SystemEnvironment
from tidelog.clients.security.oauthbearer.login import RETRY_DELAY_MS, TokenLogin
from tidelog.clients.security.oauthbearer.token_requests import TokenRetrievalError
from tidelog.clients.security.oauthbearer.token_sources import ProviderRetriever
from tidelog.security.oauthbearer.refresh_time import RefreshSettings
from tidelog.security.oauthbearer.token import BearerToken

SETTINGS = RefreshSettings(window_factor=0.8, window_jitter=0.0, min_period_ms=1_000, buffer_ms=1_000)
LIFETIME_MS = 100_000


class ManualEnvironment(SystemEnvironment):
    """An environment whose wall clock is set by the test."""

    def __init__(self) -> None:
        super().__init__(random.Random(1))
        self.now_ms = NOW_MS
        self.wall_ms = lambda: self.now_ms


class Tokens:
    """Returns numbered tokens, or fails; `release` ends the retrieval."""

    def __init__(self, environment: ManualEnvironment) -> None:
        self.count = 0
        self.error: TokenRetrievalError | None = None
        self.release = asyncio.Event()
        self.release.set()
        self._environment = environment

    async def retrieve(self) -> BearerToken:
        self.count += 1
        await self.release.wait()
        if self.error is not None:
            raise self.error
        expires_ms = self._environment.now_ms + LIFETIME_MS
        return BearerToken(value=f"token-{self.count}", principal="alice", expires_ms=expires_ms)


def create_login() -> tuple[ManualEnvironment, Tokens, TokenLogin]:
    environment = ManualEnvironment()
    tokens = Tokens(environment)
    return environment, tokens, TokenLogin(tokens, SETTINGS, environment)


async def test_all_connections_share_one_request() -> None:
    _, tokens, login = create_login()
    tokens.release.clear()
    waiting = [asyncio.ensure_future(login.token()) for _ in range(5)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    tokens.release.set()
    tokens_received = await asyncio.gather(*waiting[1:])
    assert {token.value for token in tokens_received} == {"token-1"} and tokens.count == 1


async def test_a_token_is_replaced_before_it_expires() -> None:
    environment, tokens, login = create_login()
    for age_ms, expected in ((0, "token-1"), (79_999, "token-1"), (80_000, "token-2"), (159_999, "token-2")):
        environment.now_ms = NOW_MS + age_ms
        assert (await login.token()).value == expected
    assert tokens.count == 2


async def test_the_former_token_is_used_while_the_provider_fails(caplog: pytest.LogCaptureFixture) -> None:
    environment, tokens, login = create_login()
    await login.token()
    tokens.error = TokenRetrievalError("HTTP status 503", is_retriable=True)
    environment.now_ms = NOW_MS + 80_000
    assert [(await login.token()).value for _ in range(3)] == ["token-1"] * 3
    assert tokens.count == 2, "the next attempt is later"
    assert "HTTP status 503" in caplog.text
    environment.now_ms += RETRY_DELAY_MS
    tokens.error = None
    assert (await login.token()).value == "token-3"


async def test_a_slow_provider_delays_no_connection_for_long(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tidelog.clients.security.oauthbearer.login.REFRESH_WAIT_S", 0.01)
    environment, tokens, login = create_login()
    await login.token()
    tokens.release.clear()
    environment.now_ms = NOW_MS + 80_000
    assert (await login.token()).value == "token-1"
    tokens.release.set()
    environment.now_ms += RETRY_DELAY_MS
    assert (await login.token()).value == "token-2"


async def test_without_a_valid_token_the_error_is_raised() -> None:
    environment, tokens, login = create_login()
    tokens.error = TokenRetrievalError("HTTP status 401, invalid_client")
    with pytest.raises(TokenRetrievalError, match="invalid_client"):
        await login.token()
    tokens.error = None
    await login.token()
    tokens.error = TokenRetrievalError("HTTP status 503")
    environment.now_ms = NOW_MS + LIFETIME_MS
    with pytest.raises(TokenRetrievalError, match="503"):
        await login.token()


async def test_the_function_of_the_application_may_block_or_await() -> None:
    signed_token = SigningKey().sign(claims(NOW_MS))

    async def coroutine() -> str:
        return signed_token

    environment = ManualEnvironment()
    for provider, expires_ms in (
        (lambda: signed_token, NOW_MS + 3_600_000),
        (lambda: (signed_token, NOW_MS / 1000 + 5), NOW_MS + 5_000),
        (coroutine, NOW_MS + 3_600_000),
        (lambda: coroutine(), NOW_MS + 3_600_000),
        (lambda: "opaque", 0),
    ):
        token = await ProviderRetriever(provider, environment).retrieve()
        assert token.expires_ms == expires_ms


async def test_a_function_that_fails_shows_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    def fail() -> str:
        raise RuntimeError("canary")

    for provider in (
        fail,
        lambda: 5,
        lambda: ("canary", "canary"),
        lambda: "canary\x01auth",
        lambda: None,
    ):
        with pytest.raises(TokenRetrievalError) as raised:
            await ProviderRetriever(provider, ManualEnvironment()).retrieve()
        assert "canary" not in str(raised.value) and raised.value.__cause__ is None
    assert "canary" not in caplog.text
