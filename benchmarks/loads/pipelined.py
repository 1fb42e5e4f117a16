"""Maximum request rate of a server: connections with a fixed number of requests in flight.

The frames are encoded before the measurement starts and responses are only counted, so that one Python
process can saturate the broker. Every response must have the size of the first one: an error or a throttled
response has another size, and ends the load.
"""

from __future__ import annotations

import selectors
import socket
import struct
import time
from typing import Any, Final

from benchmarks.frames import SIZE_BYTES, batch, check_produced, create_topic_frame, produce_frame
from benchmarks.loads.options import main
from benchmarks.loads.responses import count_responses

RECEIVE_BYTES: Final = 256 * 1024
WARM_UP_S: Final = 0.3

_size_of: Final = struct.Struct(">i").unpack_from


class PipelinedConnection:
    """A blocking socket with `in_flight` requests in flight."""

    def __init__(self, host: str, port: int, frame: bytes, in_flight: int, response_bytes: int) -> None:
        self.socket = connect(host, port)
        self._frames = memoryview(frame * in_flight)
        self._frame_bytes = len(frame)
        self._in_flight = in_flight
        self._response_bytes = response_bytes
        self._rest = 0

    def start(self) -> None:
        """Send the first requests."""
        self.socket.sendall(self._frames)

    def receive_and_send(self, buffer: bytearray) -> int:
        """Receive responses, send a request for each of them, and return their number."""
        received = self.socket.recv_into(buffer)
        if received == 0:
            raise ConnectionError("the server closed the connection")
        count, self._rest = divmod(self._rest + received, self._response_bytes)
        if count:
            self.socket.sendall(self._frames[: count * self._frame_bytes])
        return count


def connect(host: str, port: int) -> socket.socket:
    """Open a blocking connection that sends without delay (TCP_NODELAY)."""
    connection = socket.create_connection((host, port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def send_and_receive(connection: socket.socket, frame: bytes) -> bytes:
    """Send one request and return its response, without the size."""
    connection.sendall(frame)
    size = _size_of(_receive(connection, SIZE_BYTES))[0]
    return _receive(connection, size)


def _receive(connection: socket.socket, length: int) -> bytes:
    parts, missing = [], length
    while missing:
        part = connection.recv(missing)
        if not part:
            raise ConnectionError("the server closed the connection")
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def pipelined_produce(
    host: str,
    port: int,
    topic: str,
    partitions: int,
    batch_bytes: int,
    connections: int,
    in_flight: int,
    seconds: float,
    pid: int,
    creates_topic: bool = True,
) -> dict[str, Any]:
    """Produce the same batch repeatedly; return requests per second and CPU seconds of process `pid`."""
    records = batch(batch_bytes)
    frame = produce_frame(topic, partitions, records)
    with connect(host, port) as first:
        if creates_topic:
            send_and_receive(first, create_topic_frame(topic, partitions))
        response = send_and_receive(first, frame)
    check_produced(response)
    response_bytes = SIZE_BYTES + len(response)
    open_connections = [
        PipelinedConnection(host, port, frame, in_flight, response_bytes) for _ in range(connections)
    ]
    selector = selectors.DefaultSelector()
    for connection in open_connections:
        selector.register(connection.socket, selectors.EVENT_READ, connection)
        connection.start()
    buffer = bytearray(RECEIVE_BYTES)

    def receive(connection: PipelinedConnection) -> int:
        return connection.receive_and_send(buffer)

    count_responses(selector, receive, time.perf_counter() + WARM_UP_S)
    started, cpu_before = time.perf_counter(), _cpu_seconds(pid)
    requests = count_responses(selector, receive, started + seconds, at_least=connections)
    elapsed, cpu_s = time.perf_counter() - started, _cpu_seconds(pid) - cpu_before
    return {
        "requests_per_s": requests / elapsed,
        "bytes_per_s": requests * len(records) * partitions / elapsed,
        "cpu_us_per_request": cpu_s / requests * 1e6,
        "cpu_share": cpu_s / elapsed,
    }


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time of the process's first thread, which runs the event loop."""
    with open(f"/proc/{pid}/schedstat") as file:
        return int(file.read().split()[0]) / 1e9


if __name__ == "__main__":
    main(pipelined_produce)
