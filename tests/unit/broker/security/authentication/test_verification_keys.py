"""The keys of an identity provider: fetched, rotated, kept while the provider is unavailable."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.security.identity_provider import (
    AUDIENCE,
    KEYS_PATH,
    IdentityProvider,
    SigningKey,
    claims,
    key_set,
    running_provider,
)
from tests.support.waiting import eventually
from tidelog.base.clock import SYSTEM_CLOCK
from tidelog.base.config_definition import ConfigError
from tidelog.broker.config.oauthbearer_config import KeyRefreshSettings, SignedTokenConfig
from tidelog.broker.security.authentication.verification_keys import KeyPorts, VerificationKeys
from tidelog.clients.config.environment import SystemEnvironment
from tidelog.security.oauthbearer.allowed_resources import Endpoint
from tidelog.security.oauthbearer.token import TokenError, TokenRules
from tidelog.security.tls.settings import parse_tls_settings

OLD, NEW = SigningKey(), SigningKey("key-2", number=2)


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    """Run an identity provider with one key."""
    with running_provider() as running:
        yield running


@asynccontextmanager
async def run_keys(
    url: str, path: str | None = None, *, refresh_ms: int = 3_600_000
) -> AsyncIterator[VerificationKeys]:
    """Start a refresh of the keys and yield them."""
    config = SignedTokenConfig(
        rules=TokenRules(expected_audiences=frozenset({AUDIENCE})),
        endpoint=Endpoint(url, path),
        tls=parse_tls_settings({}),
        refresh=KeyRefreshSettings(refresh_ms=refresh_ms, backoff_ms=10, backoff_max_ms=20),
    )
    with ThreadPoolExecutor(1) as executor:
        keys = VerificationKeys(config, KeyPorts(SYSTEM_CLOCK, SystemEnvironment(), executor))
        try:
            await keys.start()
            yield keys
        finally:
            await keys.close()


def is_accepted(keys: VerificationKeys, key: SigningKey) -> bool:
    try:
        return keys.validate(key.sign(claims())).principal == "alice"
    except TokenError:
        return False


async def test_the_keys_are_there_before_clients_are_served(provider: IdentityProvider) -> None:
    async with run_keys(provider.url + KEYS_PATH) as keys:
        assert is_accepted(keys, OLD)
        assert provider.count(KEYS_PATH) == 1


async def test_a_token_with_a_rotated_key_is_accepted_soon(provider: IdentityProvider) -> None:
    async with run_keys(provider.url + KEYS_PATH) as keys:
        provider.keys = [NEW]
        assert not is_accepted(keys, NEW)
        assert is_accepted(keys, OLD), "the known keys are used during the fetch"
        await eventually(lambda: is_accepted(keys, NEW))
        assert not is_accepted(keys, OLD)


async def test_the_keys_are_fetched_at_intervals(provider: IdentityProvider) -> None:
    async with run_keys(provider.url + KEYS_PATH, refresh_ms=20) as keys:
        provider.keys = [OLD, NEW]
        await eventually(lambda: "key-2" in keys.keys.key_ids)


async def test_a_node_starts_without_its_provider_and_recovers(
    provider: IdentityProvider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    provider.response_to = lambda path: (503, b"canary")
    async with run_keys(provider.url + KEYS_PATH) as keys:
        assert not is_accepted(keys, OLD)
        assert "(HTTP status 503); retrying in 10 ms with 0 keys in use" in caplog.text
        provider.response_to = None
        await eventually(lambda: is_accepted(keys, OLD))
    assert "canary" not in caplog.text


@pytest.mark.parametrize(
    "response",
    [(500, b"canary"), (200, b"canary"), (200, b'{"keys": []}'), (302, b"/canary"), (200, b"x" * 2_000_000)],
)
async def test_the_known_keys_stay_in_use_while_the_provider_fails(
    provider: IdentityProvider, caplog: pytest.LogCaptureFixture, response: tuple[int, bytes]
) -> None:
    async with run_keys(provider.url + KEYS_PATH, refresh_ms=20) as keys:
        provider.response_to = lambda path: response
        await eventually(lambda: "Cannot fetch the keys" in caplog.text)
        assert is_accepted(keys, OLD)
    assert "canary" not in caplog.text
    assert {path for path, _ in provider.requests} == {KEYS_PATH}


async def test_a_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_bytes(key_set(OLD))
    async with run_keys(file.as_uri(), str(file)) as keys:
        assert is_accepted(keys, OLD)
        file.write_bytes(key_set(NEW))
        assert not is_accepted(keys, NEW)
        await eventually(lambda: is_accepted(keys, NEW))


@pytest.mark.parametrize("contents", [None, b"", b"canary", b"x" * 2_000_000])
async def test_a_file_that_cannot_be_used_is_an_error_at_the_start(
    tmp_path: Path, contents: bytes | None
) -> None:
    file = tmp_path / "keys.json"
    if contents is not None:
        file.write_bytes(contents)
    with pytest.raises(ConfigError, match="the key set cannot be used") as raised:
        async with run_keys(file.as_uri(), str(file)):
            pass
    assert "canary" not in str(raised.value)


async def test_only_regular_files_are_read(tmp_path: Path) -> None:
    for path in (str(tmp_path), "/dev/zero"):
        with pytest.raises(ConfigError, match="no regular file"):
            async with run_keys("file:" + path, path):
                pass
