"""The base of every client (shell): its connections, its metadata and the task that refreshes it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tidelog.base.backoff import ExponentialBackoff
from tidelog.clients.config.client_config import ClientConfig
from tidelog.clients.config.environment import Environment, SystemEnvironment
from tidelog.clients.metadata.cluster_metadata import ClusterMetadata
from tidelog.clients.metadata.metadata_updater import MetadataUpdater
from tidelog.clients.metadata.refresh_policy import RefreshPolicy
from tidelog.clients.security.client_authenticator import client_authenticator
from tidelog.clients.transport.connection import Authenticator
from tidelog.clients.transport.network import Network
from tidelog.protocol.errors import KafkaError

_log = logging.getLogger("tidelog.clients.metadata.cluster_client")

ResultT = TypeVar("ResultT")


class ClusterClient:
    """The connections and metadata of one client; call `open` before use and `close` at the end.

    `authenticator`: None means the one that `config` describes. `max_idle_ms`: topics that were not used for
    this time are removed (None: never).
    """

    def __init__(
        self,
        config: ClientConfig,
        environment: Environment | None,
        authenticator: Authenticator | None,
        *,
        allow_auto_topic_creation: bool,
        max_idle_ms: int | None,
    ) -> None:
        self.environment: Environment = environment or SystemEnvironment()
        if authenticator is None:
            authenticator = client_authenticator(config, self.environment)
        self.network = Network(config, self.environment, authenticator)
        self.metadata = ClusterMetadata()
        self.backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        policy = RefreshPolicy(
            max_age_ms=config.metadata_max_age_ms,
            max_idle_ms=max_idle_ms,
            backoff=self.backoff,
            rng=self.environment.rng,
        )
        self.updater = MetadataUpdater(
            self.metadata,
            policy,
            self.network,
            self.environment,
            allow_auto_topic_creation=allow_auto_topic_creation,
        )

    def now_ms(self) -> int:
        """Return the time of the monotonic clock."""
        return self.environment.monotonic_ms()

    async def retry(
        self,
        call: Callable[[], Awaitable[ResultT]],
        deadline_ms: int,
        *,
        max_retries: int | None = None,
    ) -> ResultT:
        """Return the result of `call`; after a retriable error, call it again after a backoff.

        Raise the last error if the next attempt would begin at `deadline_ms` or later, or after `max_retries`
        (None: no limit).
        """
        attempt = 0
        while True:
            try:
                return await call()
            except KafkaError as error:
                if not error.code.retriable or (max_retries is not None and attempt >= max_retries):
                    raise
                delay_ms = self.backoff.delay_ms(attempt, self.environment.rng)
                if self.now_ms() + delay_ms >= deadline_ms:
                    raise
                _log.debug("%s; retrying in %d ms", error, delay_ms)
            await asyncio.sleep(delay_ms / 1000)
            attempt += 1

    async def open(self, deadline_ms: int) -> None:
        """Start to refresh metadata, and wait for it; raise KafkaError if no server responds in time."""
        self.updater.start()
        try:
            await self.updater.ready(deadline_ms)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Stop refreshing, and close all connections."""
        await self.updater.close()
        await self.network.close()
