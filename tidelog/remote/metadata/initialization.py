"""Connection to the metadata topic after a start (shell).

Failed attempts are retried with backoff; each reason is logged once as a warning.

    too few brokers   the topic cannot be created with its replication factor: retried without a limit,
                      because the cluster works and only brokers are missing
    other errors      the topic or the cluster cannot be reached: retried until
                      remote.log.metadata.initialization.retry.max.timeout.ms has expired (KIP-1197)

The first attempts of a cluster that was just started usually fail; they are logged at DEBUG.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from tidelog.base.backoff import ExponentialBackoff
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.remote.metadata.config import METADATA_TOPIC, MetadataTopicConfig
from tidelog.remote.metadata.log_ports import RETRIED, MetadataLogWriter, MetadataTopic
from tidelog.remote.ports.metadata_manager import RemoteMetadataError

_BACKOFF_MAX_MS: Final = 5_000
_QUIET_ATTEMPTS: Final = 5

_log = logging.getLogger(__name__)


class MetadataTopicInitializer:
    """Creates the topic if it is missing, and opens its writer."""

    def __init__(self, config: MetadataTopicConfig, topic: MetadataTopic) -> None:
        self._config = config
        self._topic = topic
        self._backoff = ExponentialBackoff(config.initialization_retry_interval_ms, _BACKOFF_MAX_MS)
        self._attempts = 0
        self._warned: set[str] = set()
        self._last_error: BaseException | None = None

    async def open_writer(self) -> MetadataLogWriter:
        """Return a writer as soon as the topic can be used.

        Errors: RemoteMetadataError if the topic was not reached in time, WrongMetadataTopic.
        """
        loop = asyncio.get_running_loop()
        limit_s = self._config.initialization_retry_max_timeout_ms / 1000
        deadline = loop.time() + limit_s
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    await self._topic.ensure()
                    writer = await self._topic.open_writer()
            except RETRIED as error:
                self._on_failure(error)
                lacks_brokers = _lacks_brokers(error)
            else:
                self._on_success()
                return writer
            pause_s = self._backoff.base_delay_ms(self._attempts - 1) / 1000
            if not lacks_brokers and loop.time() + pause_s >= deadline:
                raise RemoteMetadataError(
                    f"cannot reach the metadata topic {METADATA_TOPIC} within {limit_s:g} s: "
                    f"{self._last_error!r}"
                )
            await asyncio.sleep(pause_s)
            if lacks_brokers:
                deadline = loop.time() + limit_s

    def _on_failure(self, error: BaseException) -> None:
        self._attempts += 1
        if self._last_error is None or not isinstance(error, TimeoutError):
            self._last_error = error
        reason = error.code.name if isinstance(error, KafkaError) else type(error).__name__
        is_new = self._attempts >= _QUIET_ATTEMPTS and reason not in self._warned
        if is_new:
            self._warned.add(reason)
        _log.log(
            logging.WARNING if is_new else logging.DEBUG,
            "Cannot use topic %s, so tiered storage waits; retrying with backoff: %s",
            METADATA_TOPIC,
            str(error) or repr(error),
        )

    def _on_success(self) -> None:
        if self._warned:
            _log.info("Topic %s can be used now, after %d failed attempts", METADATA_TOPIC, self._attempts)


def _lacks_brokers(error: BaseException) -> bool:
    return isinstance(error, KafkaError) and error.code is ErrorCode.INVALID_REPLICATION_FACTOR
