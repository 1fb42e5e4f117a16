"""Loads on blocking sockets: one request at a time, the same fetch repeatedly, the first response.

They use no client library, so that only the server and the kernel are measured.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from typing import Any, Final

from benchmarks.frames import (
    SIZE_BYTES,
    batch,
    create_topic_frame,
    fetch_frame,
    metadata_frame,
    produce_frame,
)
from benchmarks.loads.options import main, percentile
from benchmarks.loads.pipelined import connect, send_and_receive

WARM_UP_REQUESTS: Final = 200
RECEIVE_BYTES: Final = 1024 * 1024


def raw(kind: str, **options: Any) -> dict[str, Any]:
    """Run the load called `kind`."""
    loads: dict[str, Callable[..., dict[str, Any]]] = {
        "latency": latency,
        "fill": fill,
        "fetch": fetch,
        "stream": stream,
        "first_response": first_response,
    }
    return loads[kind](**options)


def latency(host: str, port: int, topic: str, seconds: float, creates_topic: bool) -> dict[str, Any]:
    """Produce one record of 100 bytes at a time; return the response times in microseconds."""
    frame = produce_frame(topic, 1, batch(0))
    taken: list[float] = []
    with connect(host, port) as connection:
        if creates_topic:
            send_and_receive(connection, create_topic_frame(topic, 1))
        for _ in range(WARM_UP_REQUESTS):
            send_and_receive(connection, frame)
        deadline = time.perf_counter() + seconds
        while (started := time.perf_counter()) < deadline:
            send_and_receive(connection, frame)
            taken.append((time.perf_counter() - started) * 1e6)
    taken.sort()
    return {"p50_us": percentile(taken, 0.5), "p99_us": percentile(taken, 0.99), "count": len(taken)}


def fill(host: str, port: int, topic: str, size_bytes: int, batch_bytes: int) -> dict[str, Any]:
    """Create a topic of one partition and produce at least `size_bytes` into it."""
    frame = produce_frame(topic, 1, batch(batch_bytes))
    count = size_bytes // batch_bytes + 1
    with connect(host, port) as connection:
        send_and_receive(connection, create_topic_frame(topic, 1))
        for _ in range(count):
            send_and_receive(connection, frame)
    return {"batches": count}


def fetch(host: str, port: int, topic: str, max_bytes: int, seconds: float) -> dict[str, Any]:
    """Fetch the first `max_bytes` of a partition repeatedly."""
    return _receive_for(host, port, fetch_frame(topic, 0, 0, max_bytes), None, seconds)


def stream(host: str, port: int, length: int, seconds: float) -> dict[str, Any]:
    """Send requests to the sendfile server repeatedly."""
    return _receive_for(host, port, b"next", length, seconds)


def _receive_for(host: str, port: int, frame: bytes, length: int | None, seconds: float) -> dict[str, Any]:
    """Return bytes per second; if `length` is None, each response begins with its size."""
    buffer = memoryview(bytearray(RECEIVE_BYTES))
    total = 0
    with connect(host, port) as connection:
        connection.sendall(frame)
        started = time.perf_counter()
        while time.perf_counter() - started < seconds:
            expected = length if length is not None else _size(connection)
            # The next request is on its way while this response is read, as consumers do.
            connection.sendall(frame)
            total += expected
            while expected:
                expected -= connection.recv_into(buffer, min(expected, RECEIVE_BYTES))
        elapsed = time.perf_counter() - started
    return {"bytes_per_s": total / elapsed}


def _size(connection: socket.socket) -> int:
    size: int = struct.unpack(">i", connection.recv(SIZE_BYTES, socket.MSG_WAITALL))[0]
    return size


def first_response(host: str, port: int) -> dict[str, Any]:
    """Send one Metadata request."""
    with connect(host, port) as connection:
        return {"response_bytes": len(send_and_receive(connection, metadata_frame("first")))}


if __name__ == "__main__":
    main(raw)
