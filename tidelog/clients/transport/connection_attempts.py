"""The failed attempts of a client to connect to each broker: backoff, last error, and one warning per outage.

A warning names the broker and the address that it advertises: a wrong advertised address is the most frequent
reason. Without it a producer would be silent until its records expire.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Final

from tidelog.base.backoff import ExponentialBackoff
from tidelog.base.dataclass import dataclass
from tidelog.clients.config.environment import Environment
from tidelog.clients.transport.broker_address import BrokerAddress
from tidelog.protocol.ids import BrokerId

_log = logging.getLogger("tidelog.clients.transport.network")

REPORT_AFTER_MS: Final = 3_000
"""Shorter outages, such as restarts of brokers, are not reported."""
UNUSED_AFTER_MS: Final = 1_000
"""A broker to which no attempt begins for this time, although it may, is not needed by the client."""


@dataclass(slots=True)
class _Outage:
    """The consecutive failed attempts to connect to one broker; `timer` reports them."""

    timer: asyncio.TimerHandle | None = None
    is_trying: bool = False
    failures: int = 0
    not_before_ms: int = 0
    error: str = ""
    is_reported: bool = False


class ConnectionAttempts:
    """The attempts of one client; the network calls `begin`, then `fail` or `succeed`."""

    def __init__(self, backoff: ExponentialBackoff, environment: Environment) -> None:
        self._backoff = backoff
        self._environment = environment
        self._outages: dict[BrokerId, _Outage] = {}

    def begin(self, broker: BrokerAddress) -> None:
        """Record that an attempt begins; the first one after a success starts the timer of the report."""
        outage = self._outages.setdefault(broker.node_id, _Outage())
        outage.is_trying = True
        # The error of a bootstrap server is that of the call which waits for metadata.
        if outage.timer is None and broker.node_id >= 0:
            loop = asyncio.get_running_loop()
            outage.timer = loop.call_later(REPORT_AFTER_MS / 1000, self._report, broker, outage)

    def fail(self, node_id: BrokerId, error: str) -> None:
        """Record a failed attempt, after which the next one waits for the backoff."""
        outage = self._outages.setdefault(node_id, _Outage())
        delay_ms = self._backoff.delay_ms(outage.failures, self._environment.rng)
        outage.is_trying = False
        outage.failures += 1
        outage.not_before_ms = self._environment.monotonic_ms() + delay_ms
        outage.error = error

    def succeed(self, node_id: BrokerId) -> None:
        """Record a connection; it ends the outage."""
        outage = self._forget(node_id)
        if outage is not None and outage.is_reported:
            _log.warning("broker %d can be reached again", node_id)

    def retain(self, node_ids: Collection[BrokerId]) -> None:
        """Remove brokers that are not in `node_ids`, except for bootstrap servers."""
        for node_id in [id_ for id_ in self._outages if id_ >= 0 and id_ not in node_ids]:
            self._forget(node_id)

    def close(self) -> None:
        """Stop all timers."""
        for node_id in list(self._outages):
            self._forget(node_id)

    def retry_in_ms(self, node_id: BrokerId) -> int:
        """Return the time until the next attempt to connect to `node_id` is allowed."""
        outage = self._outages.get(node_id)
        return 0 if outage is None else max(0, outage.not_before_ms - self._environment.monotonic_ms())

    def last_error(self, node_id: BrokerId) -> str | None:
        """Return the error of the last attempt; None if it succeeded, or if there was none."""
        outage = self._outages.get(node_id)
        return None if outage is None else outage.error or None

    def _forget(self, node_id: BrokerId) -> _Outage | None:
        outage = self._outages.pop(node_id, None)
        if outage is not None and outage.timer is not None:
            outage.timer.cancel()
        return outage

    def _report(self, broker: BrokerAddress, outage: _Outage) -> None:
        is_allowed_ms = self._environment.monotonic_ms() - outage.not_before_ms
        if not outage.is_trying and is_allowed_ms > UNUSED_AFTER_MS:
            # The client does not need this broker now. The next attempt starts the timer again.
            outage.timer = None
            return
        outage.is_reported = True
        address = f"broker {broker.node_id} at {broker.host}:{broker.port}"
        error = outage.error or f"{address} cannot be reached: no response for {REPORT_AFTER_MS // 1000} s"
        _log.warning("%s; the broker advertises this address; retrying", error)
