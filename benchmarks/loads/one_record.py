"""Many connections, each with one produce request of one record in flight; requests and broker CPU.

The frames are encoded before the measurement starts, and each connection cycles through the partitions, so
that one Python process can saturate a broker with thousands of connections or partitions.
"""

from __future__ import annotations

import resource
import selectors
import socket
import time
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from typing import Any, Final

from benchmarks.frames import SIZE_BYTES, batch, check_produced, one_partition_frame
from benchmarks.loads.options import main
from benchmarks.loads.pipelined import connect, send_and_receive
from benchmarks.loads.responses import count_responses
from benchmarks.processes import tree_cpu_seconds

RECEIVE_BYTES: Final = 64 * 1024
WARM_UP_S: Final = 0.5
LEADER_WITHIN_S: Final = 20.0


class RecordConnection:
    """One connection with one request in flight."""

    def __init__(self, host: str, port: int, frames: Iterator[bytes]) -> None:
        self.socket = connect(host, port)
        self._frames = frames
        # One exchange before the clock starts: the broker has accepted the connection then, and the accept
        # queue cannot overflow.
        response = _accepted(self.socket, next(frames))
        self._missing = self._response_bytes = SIZE_BYTES + len(response)

    def send(self) -> None:
        """Send the next request."""
        self.socket.sendall(next(self._frames))

    def receive(self, buffer: bytearray) -> bool:
        """Read the available bytes; after a complete response, send the next request and return True."""
        received = self.socket.recv_into(buffer)
        if received == 0:
            raise ConnectionError("the broker closed the connection")
        self._missing -= received
        if self._missing > 0:
            return False
        if self._missing < 0:
            raise ValueError("a response was longer than the first one")
        self._missing = self._response_bytes
        self.send()
        return True


def _accepted(connection: socket.socket, frame: bytes) -> bytes:
    """Send a request until it is accepted: a new partition may have no leader yet. Raise ValueError."""
    deadline = time.monotonic() + LEADER_WITHIN_S
    while True:
        response = send_and_receive(connection, frame)
        try:
            check_produced(response)
            return response
        except ValueError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def one_record(
    addresses: Sequence[tuple[str, int]],
    topic: str,
    partitions: int,
    connections: int,
    seconds: float,
    pids: Sequence[int],
) -> dict[str, Any]:
    """Send for `seconds`; return requests per second, and CPU time of `pids` for each request.

    It lasts longer if there are fewer responses than connections by then, so that the figures are defined.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    records = batch(0)
    frames = [one_partition_frame(topic, partition, records) for partition in range(partitions)]
    opened = [
        # Each connection starts at another partition.
        RecordConnection(
            *addresses[number % len(addresses)], islice(cycle(frames), number % partitions, None)
        )
        for number in range(connections)
    ]
    selector = selectors.DefaultSelector()
    for connection in opened:
        selector.register(connection.socket, selectors.EVENT_READ, connection)
        connection.send()
    buffer = bytearray(RECEIVE_BYTES)

    def receive(connection: RecordConnection) -> int:
        return connection.receive(buffer)

    count_responses(selector, receive, time.perf_counter() + WARM_UP_S)
    started, cpu_before = time.perf_counter(), sum(map(tree_cpu_seconds, pids))
    requests = count_responses(selector, receive, started + seconds, at_least=connections)
    elapsed, cpu_s = time.perf_counter() - started, sum(map(tree_cpu_seconds, pids)) - cpu_before
    for connection in opened:
        connection.socket.shutdown(socket.SHUT_RDWR)
        connection.socket.close()
    return {"requests_per_s": requests / elapsed, "cpu_us_per_request": cpu_s / requests * 1e6}


if __name__ == "__main__":
    main(one_record)
