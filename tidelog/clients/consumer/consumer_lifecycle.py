"""The stages of a consumer: not started, running, closing or closed (shell)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from enum import Enum, auto

from tidelog.clients.config.client_config import ConsumerConfig
from tidelog.clients.consumer.fetch_driver import FetchDriver
from tidelog.clients.metadata.cluster_client import ClusterClient
from tidelog.protocol.errors import ErrorCode, KafkaError


class Stage(Enum):
    """The stages of a consumer in order; it never returns to an earlier stage."""

    NEW = auto()
    RUNNING = auto()
    CLOSING = auto()
    CLOSED = auto()


class ConsumerLifecycle:
    """The stage of one consumer, and the checks at the beginning of its calls."""

    def __init__(self) -> None:
        self._stage = Stage.NEW

    @property
    def is_running(self) -> bool:
        """Whether the consumer is started and is not being closed."""
        return self._stage is Stage.RUNNING

    @property
    def is_closing(self) -> bool:
        """Whether the consumer is being closed or is closed."""
        return self._stage in (Stage.CLOSING, Stage.CLOSED)

    def on_started(self) -> None:
        """Record that the consumer is connected to the cluster."""
        assert self._stage is Stage.NEW
        self._stage = Stage.RUNNING

    def on_closing(self) -> None:
        """Record that the consumer begins to close: it returns no more records."""
        assert self._stage is Stage.RUNNING
        self._stage = Stage.CLOSING

    def on_closed(self) -> None:
        """Record that the consumer has left its group and cannot be used any more."""
        assert self._stage is Stage.CLOSING
        self._stage = Stage.CLOSED

    def require_new(self) -> None:
        """Raise KafkaError if the consumer has been started."""
        if self._stage is not Stage.NEW:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the consumer was already started")

    def require_usable(self) -> None:
        """Raise KafkaError if the consumer is not started or is closed."""
        if self._stage is Stage.NEW:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the consumer is not started")
        if self._stage is Stage.CLOSED:
            raise _closed_error()

    def require_open(self, driver: FetchDriver) -> None:
        """Raise KafkaError if the consumer is not started, is being closed, or its fetcher has failed."""
        self.require_usable()
        if self.is_closing:
            raise _closed_error()
        if driver.failure is not None:
            raise driver.failure

    async def wait_for_data(self, driver: FetchDriver, timeout_ms: int) -> None:
        """Wait for data at most `timeout_ms`; raise KafkaError if the consumer is closed meanwhile."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 1000):
                await driver.data_arrived.wait()
        self.require_open(driver)


def deadline_ms(client: ClusterClient, config: ConsumerConfig, timeout_ms: int | None = None) -> int:
    """Return the deadline of a call; `timeout_ms` None means `default_api_timeout_ms`."""
    return client.now_ms() + (config.default_api_timeout_ms if timeout_ms is None else timeout_ms)


def _closed_error() -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, "the consumer is closed")
