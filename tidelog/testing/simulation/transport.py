"""The transport of one side of a simulated connection; its callbacks have the order of asyncio's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

from tidelog.testing.simulation.stream import Endpoint

_HIGH_WATER_BYTES: Final = 64 * 1024
_READ_BYTES: Final = 256 * 1024


class SimulatedTransport(asyncio.Transport):
    """Passes received bytes to the protocol, and limits the bytes that wait to be sent."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        endpoint: Endpoint,
        protocol: asyncio.BaseProtocol,
        extra: dict[str, Any],
        on_closed: Callable[[], None],
    ) -> None:
        super().__init__({"peername": endpoint.remote, "sockname": endpoint.local, **extra})
        self._loop = loop
        self._endpoint = endpoint
        self.set_protocol(protocol)
        self._on_closed = on_closed
        self._high_water, self._low_water = _HIGH_WATER_BYTES, _HIGH_WATER_BYTES // 4
        self._is_writing_paused = False
        self._is_reading = False
        self._is_scheduled = False
        self._is_closing = False
        self._is_lost = False
        self._has_reported_end = False
        loop.call_soon(protocol.connection_made, self)
        loop.call_soon(self._begin)

    def _begin(self) -> None:
        self._is_reading = not self._is_closing
        self.on_change()

    def on_change(self) -> None:
        """React to a change of the connection in the next iteration of the loop."""
        if not self._is_scheduled and not self._is_lost:
            self._is_scheduled = True
            self._loop.call_soon(self._step)

    def _step(self) -> None:
        self._is_scheduled = False
        endpoint = self._endpoint
        if self._is_lost:
            return
        if endpoint.is_reset:
            self._lose(None if self._is_closing else ConnectionResetError(104, "Connection reset by peer"))
            return
        self._resume_writing()
        if self._is_closing:
            if not endpoint.unsent:
                self._lose(None)
        elif self._is_reading:
            self._read()

    def _read(self) -> None:
        endpoint = self._endpoint
        if endpoint.received:
            buffered = self._buffered
            if buffered is not None:
                buffer = memoryview(buffered.get_buffer(-1))
                data = endpoint.read(len(buffer))
                buffer[: len(data)] = data
                buffered.buffer_updated(len(data))
            else:
                cast(asyncio.Protocol, self._protocol).data_received(endpoint.read(_READ_BYTES))
            if endpoint.received or endpoint.has_ended:
                self.on_change()
        elif endpoint.has_ended and not self._has_reported_end:
            self._has_reported_end = True
            if not cast(asyncio.Protocol, self._protocol).eof_received():
                self.close()

    # ---- reading

    def is_reading(self) -> bool:
        """Return whether received bytes are passed to the protocol."""
        return self._is_reading and not self._is_closing

    def pause_reading(self) -> None:
        """Pass no further bytes to the protocol."""
        self._is_reading = False

    def resume_reading(self) -> None:
        """Pass received bytes to the protocol again."""
        if not self._is_closing and not self._is_reading:
            self._is_reading = True
            self.on_change()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Use another protocol."""
        self._protocol = protocol
        self._buffered = protocol if isinstance(protocol, asyncio.BufferedProtocol) else None

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol."""
        return self._protocol

    # ---- writing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes; after the end of the connection they are dropped, as in asyncio."""
        if self._is_closing or self._is_lost or not data:
            return
        self._endpoint.send(data)
        self._pause_writing()

    def _pause_writing(self) -> None:
        if not self._is_writing_paused and len(self._endpoint.unsent) > self._high_water:
            self._is_writing_paused = True
            self._protocol.pause_writing()

    def _resume_writing(self) -> None:
        if self._is_writing_paused and len(self._endpoint.unsent) <= self._low_water:
            self._is_writing_paused = False
            self._protocol.resume_writing()

    def get_write_buffer_size(self) -> int:
        """Return the bytes that are not sent yet."""
        return len(self._endpoint.unsent)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return the low and the high limit."""
        return self._low_water, self._high_water

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Change the limits, and pause writing if the high one is exceeded now."""
        if high is None:
            high = _HIGH_WATER_BYTES if low is None else 4 * low
        self._high_water, self._low_water = high, high // 4 if low is None else low
        self._pause_writing()

    def write_eof(self) -> None:
        """End this direction."""
        self._endpoint.finish()

    def can_write_eof(self) -> bool:
        """Return True."""
        return True

    # ---- closing

    def is_closing(self) -> bool:
        """Return whether the transport was closed."""
        return self._is_closing

    def close(self) -> None:
        """Close when all bytes are sent."""
        if not self._is_closing:
            self._is_closing = True
            self._endpoint.finish()
            self.on_change()

    def abort(self) -> None:
        """Close at once; the peer gets a reset."""
        if not self._is_lost:
            self._is_closing = True
            self._endpoint.reset()
            self.on_change()

    def _lose(self, error: Exception | None) -> None:
        self._is_lost = self._is_closing = True
        self._protocol.connection_lost(error)
        self._endpoint.close()
        self._on_closed()
