"""The client of a connection core, and the frames that it sends."""

from __future__ import annotations

from typing import cast

from tidelog.broker.network.connection_core import ConnectionCore
from tidelog.broker.network.memory import Admission, RequestMemory, SpareMemory
from tidelog.broker.network.receive_buffer import ReceiveBuffer
from tidelog.broker.network.request import Request, RequestConnection

PRODUCE, FETCH = b"\0\0", b"\0\1"


CONNECTION = cast(RequestConnection, object())


class Peer:
    """A connection core with the client that sends to it, and the outcomes of the requests."""

    def __init__(self, memory: RequestMemory | None = None) -> None:
        self.memory = memory or RequestMemory(10_000)
        self.memory_events = 0
        admission = Admission(self.memory, lambda: 0, self._on_memory)
        buffer = ReceiveBuffer(1_000_000, SpareMemory(0), self.memory.uncounted_bytes)
        self.core = ConnectionCore(buffer, admission)

    def _on_memory(self) -> None:
        self.memory_events += 1

    def send(self, data: bytes) -> int:
        """Receive as much of `data` as the buffer holds; return how much that was."""
        room = self.core.buffer.writable()
        count = min(len(room), len(data))
        room[:count] = data[:count]
        self.core.on_received(count)
        return count

    def next_request(self) -> Request | None:
        return self.core.next_request(CONNECTION, 0, 0)

    def take(self) -> Request:
        """Take the next current request, within a turn."""
        assert self.core.begin_turn()
        request = self.next_request()
        assert request is not None
        return request

    def take_and_mute(self) -> Request:
        """Take the next request, whose handler does not respond at once."""
        request = self.take()
        assert self.core.mute() is None
        self.core.end_turn()
        return request

    def take_and_park(self) -> Request:
        """Take the next request, which its handler parks."""
        request = self.take()
        assert self.core.on_parked(request)
        self.core.end_turn()
        return request
