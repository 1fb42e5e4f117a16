"""The keys of an identity provider that verify tokens, kept up to date by a task.

Authentication uses the keys in memory and never waits for the identity provider. If it cannot be reached, the
former keys stay in use. At the start the keys are fetched once before clients are served: a file that cannot
be used is an error, but a node whose identity provider is unavailable starts, and rejects tokens until it has
keys.

I/O: a shell; keys are fetched by HTTP, or read from a file in `executor`.
Source: RefreshingHttpsJwksVerificationKeyResolver and JwksFileVerificationKeyResolver of Apache Kafka 4.3.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Executor
from ssl import SSLContext
from typing import Final, NamedTuple

from tidelog.base.clock import Clock
from tidelog.base.config_definition import ConfigError
from tidelog.broker.config.oauthbearer_config import SignedTokenConfig
from tidelog.broker.security.authentication.key_refresh import KeyRefresh
from tidelog.clients.config.environment import Environment
from tidelog.clients.transport.http_exchange import (
    RESPONSE_BYTES_MAX,
    HttpError,
    HttpRequest,
    HttpTimeouts,
    exchange,
)
from tidelog.security.credential_files import read_regular_file
from tidelog.security.oauthbearer.key_set import KeySet, parse_key_set
from tidelog.security.oauthbearer.signed import UnknownKeyError, verify_token
from tidelog.security.oauthbearer.token import BearerToken
from tidelog.security.tls.contexts import client_context

logger = logging.getLogger(__name__)

TIMEOUTS: Final = HttpTimeouts(connect_ms=5_000, read_ms=5_000)
_OK: Final = 200


class KeyPorts(NamedTuple):
    """The clock, the network, and the threads in which files are read and keys are parsed."""

    clock: Clock
    environment: Environment
    executor: Executor


class VerificationKeys:
    """Verifies tokens with the current keys of one identity provider."""

    def __init__(self, config: SignedTokenConfig, ports: KeyPorts) -> None:
        """Load the trusted certificates of the endpoint. Errors: ConfigError."""
        self.keys = KeySet()
        """The current keys; none until the first fetch."""
        self._config = config
        self._ports = ports
        self._context: SSLContext | None = None
        if config.endpoint.url.startswith("https:"):
            self._context = client_context(config.tls)
        self._refresh = KeyRefresh(config.refresh, ports.clock.monotonic_ms())
        self._earlier_fetch = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Fetch the keys, and then keep them up to date. Errors: ConfigError for a file without keys."""
        await self._fetch(is_first=True)
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Fetch no more keys."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def validate(self, value: str) -> BearerToken:
        """Return the verified token; raise TokenError. An unknown key id causes a fetch of the keys."""
        try:
            return verify_token(value, self._config.rules, self.keys, self._ports.clock.wall_ms())
        except UnknownKeyError as error:
            if self._refresh.on_unknown_key(error.key_id, self._ports.clock.monotonic_ms()):
                self._earlier_fetch.set()
            raise

    async def _run(self) -> None:
        while True:
            delay_ms = self._refresh.next_fetch_ms - self._ports.clock.monotonic_ms()
            if delay_ms <= 0:
                await self._fetch()
                continue
            self._earlier_fetch.clear()
            try:
                async with asyncio.timeout(delay_ms / 1000):
                    await self._earlier_fetch.wait()
            except TimeoutError:
                pass

    async def _fetch(self, *, is_first: bool = False) -> None:
        """Replace the keys; if they cannot be fetched, log the reason and keep the former keys."""
        endpoint = self._config.endpoint
        try:
            text = await self._read_key_set()
            keys = await asyncio.get_running_loop().run_in_executor(self._ports.executor, parse_key_set, text)
        except (HttpError, OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            if is_first and endpoint.path is not None:
                key = "sasl.oauthbearer.jwks.endpoint.url"
                raise ConfigError(key, endpoint.url, f"the key set cannot be used: {reason}") from None
            delay_ms = self._refresh.on_failed(self._ports.clock.monotonic_ms())
            logger.warning(
                "Cannot fetch the keys of OAUTHBEARER from %s (%s); retrying in %d ms with %d keys in use",
                endpoint.url,
                reason,
                delay_ms,
                len(self.keys),
            )
            return
        self._refresh.on_fetched(keys.key_ids, self._ports.clock.monotonic_ms())
        if keys.key_ids != self.keys.key_ids:
            logger.info("OAUTHBEARER uses %d keys from %s", len(keys), endpoint.url)
        self.keys = keys

    async def _read_key_set(self) -> bytes:
        """Return the text of the key set. Errors: HttpError; OSError or ValueError if a file is unusable."""
        endpoint = self._config.endpoint
        if endpoint.path is not None:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(
                self._ports.executor, read_regular_file, endpoint.path, RESPONSE_BYTES_MAX
            )
        request = HttpRequest(url=endpoint.url)
        response = await exchange(self._ports.environment, request, self._context, TIMEOUTS)
        if response.status != _OK:
            raise HttpError(f"HTTP status {response.status}")
        return response.body
