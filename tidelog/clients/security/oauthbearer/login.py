"""The current token of a client, which is replaced before it expires.

All connections of a client share one token. It is replaced when it is used after its refresh time; an idle
client requests none. While a replacement takes long or fails, the former token is used until it expires.

I/O: a task of the running loop while a token is obtained.
Source: ExpiringCredentialRefreshingLogin of Apache Kafka 4.3.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from tidelog.clients.config.environment import Environment
from tidelog.clients.security.oauthbearer.token_requests import TokenRetrievalError
from tidelog.clients.security.oauthbearer.token_sources import TokenRetriever
from tidelog.security.oauthbearer.refresh_time import RefreshSettings, refresh_time_ms
from tidelog.security.oauthbearer.token import BearerToken

logger = logging.getLogger(__name__)

RETRY_DELAY_MS: Final = 10_000
"""The time between a failed replacement and the next one, while the former token is valid."""
REFRESH_WAIT_S: Final = 1.0
"""The longest time for which a connection waits for a replacement while the former token is valid."""


class TokenLogin:
    """Has the token of one client."""

    def __init__(
        self, retriever: TokenRetriever, settings: RefreshSettings, environment: Environment
    ) -> None:
        self._retriever = retriever
        self._settings = settings
        self._environment = environment
        self._token: BearerToken | None = None
        self._refresh_ms = 0
        self._task: asyncio.Task[BearerToken] | None = None

    async def token(self) -> BearerToken:
        """Return a token that is not expired. Errors: TokenRetrievalError."""
        token, now_ms = self._token, self._environment.wall_ms()
        if token is None or now_ms >= token.expires_ms:
            # One task for all connections: the cancellation of one of them does not end it.
            return await asyncio.shield(self._retrieval())
        if now_ms < self._refresh_ms:
            return token
        try:
            async with asyncio.timeout(REFRESH_WAIT_S):
                return await asyncio.shield(self._retrieval())
        except (TimeoutError, TokenRetrievalError) as error:
            self._refresh_ms = now_ms + RETRY_DELAY_MS
            reason = str(error) or f"no response within {REFRESH_WAIT_S:g} s"
            logger.warning("Cannot replace the token of OAUTHBEARER (%s); the former one is used", reason)
            return token

    def _retrieval(self) -> asyncio.Task[BearerToken]:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._retrieve())
            self._task.add_done_callback(_consume_error)
        return self._task

    async def _retrieve(self) -> BearerToken:
        token = await self._retriever.retrieve()
        now_ms, random_part = self._environment.wall_ms(), self._environment.rng.random()
        self._token = token
        self._refresh_ms = refresh_time_ms(token, self._settings, now_ms, random_part)
        return token


def _consume_error(task: asyncio.Task[BearerToken]) -> None:
    """Mark the error as retrieved: the connections that waited for the task may have been closed."""
    if not task.cancelled():
        task.exception()
