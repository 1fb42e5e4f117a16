"""The end of a controlled shutdown without a response: it was lost, or no controller remains.

The metadata shows a broker as fenced if the response with the permission was lost. But metadata from before
its last unfencing also does, and so does a fencing before the shutdown was requested: a heartbeat that is
still in progress then can unfence the broker again.

An election after the loss of the active controller takes 1 to 2 s, and a broker must wait for it. It is
possible only while a majority of the controllers runs. If a majority cannot be connected, no controller can
become active: all nodes of the cluster stop at the same time, and this broker is one of the last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from tidelog.base.clock import Clock
from tidelog.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from tidelog.protocol.schema import ApiMessage

QUORUM_OUTAGE_MS: Final = 500
_PROBE_PAUSE_MS: Final = 100


class ControlledShutdown:
    """What a broker knows about its controlled shutdown from its requests, and from the metadata."""

    def __init__(self) -> None:
        self._is_requested = False
        self._is_received = False
        self._awaits_response = False
        """Whether the last request has no response yet, or has failed without one."""
        self._was_unfenced = False

    def on_request(self, message: ApiMessage) -> None:
        """Record that a request is sent, which may request the shutdown."""
        self._is_requested = isinstance(message, BrokerHeartbeatRequest) and message.want_shut_down
        self._awaits_response = True

    def on_response(self) -> None:
        """Record the response to the last request."""
        self._awaits_response = False

    def on_received(self) -> bool:
        """Record that the controller has received the request; return whether this is the first time."""
        is_first, self._is_received = not self._is_received, True
        return is_first

    def is_permitted(self, *, is_fenced: bool) -> bool:
        """Return whether the metadata permits the shutdown; call it often, with the state that it shows."""
        self._was_unfenced = self._was_unfenced or not is_fenced
        return is_fenced and self._was_unfenced and self._is_requested

    async def wait_for_outage(self, clock: Clock, probe_quorum: Callable[[], Awaitable[bool]]) -> None:
        """Return when no majority of the controllers could be reached for QUORUM_OUTAGE_MS since this call.

        `probe_quorum` connects to the controllers: only the present state counts. It is called only while
        there is no response.
        """
        reached_ms = clock.monotonic_ms()
        while clock.monotonic_ms() - reached_ms < QUORUM_OUTAGE_MS:
            await asyncio.sleep(_PROBE_PAUSE_MS / 1000)
            if not self._awaits_response or await probe_quorum():
                reached_ms = clock.monotonic_ms()
