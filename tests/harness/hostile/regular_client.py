"""The well-behaved client, a separate process.

    python -m tests.harness.hostile.regular_client HOST PORT PID

It sends small requests at a fixed rate on two connections, and opens a third one repeatedly. It writes a
`Sample` per response to standard output, and ends when its standard input is closed. PID is the broker's
process, whose scheduling statistics contain the time in which its event loop waited for a CPU.

I/O: sockets of the loopback address, /proc.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

from tests.harness.hostile.measurements import INTERVAL_NS, NANOSECONDS_PER_MS, SAMPLE, Kind
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.codec import decode
from tidelog.protocol.framing import encode_request, read_response_header
from tidelog.protocol.messages.api_versions import ApiVersionsRequest
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.protocol.registry import response_type
from tidelog.protocol.schema import ApiMessage

TOPIC: Final = "well-behaved"
RECONNECT_NS: Final = 20 * NANOSECONDS_PER_MS
RECEIVE_BYTES: Final = 65_536
ERROR_NONE: Final = 0


class RepeatedRequest:
    """A request that is sent repeatedly, and the check of its responses for errors."""

    def __init__(self, request: ApiMessage, version: int) -> None:
        self._key = request.api_key
        self._version = version
        self.frame = encode_request(request.api_key, version, 1, TOPIC, request)

    def is_error(self, response: memoryview) -> bool:
        """Return whether `response`, a frame without its size, has an error code."""
        _, position = read_response_header(response, self._key, self._version)
        message = decode(response_type(self._key), response[position:], self._version)
        match message:
            case ProduceResponse():
                return message.responses[0].partition_responses[0].error_code != ERROR_NONE
            case FetchResponse():
                return message.responses[0].partitions[0].error_code != ERROR_NONE
            case MetadataResponse():
                return message.topics[0].error_code != ERROR_NONE
        return False


def application_requests() -> Sequence[RepeatedRequest]:
    """Return the requests of an application: write a record, read one, query the leaders."""
    builder = BatchBuilder()
    builder.append(-1, b"key", bytes(100))
    data = (PartitionProduceData(index=0, records=bytes(builder.build())),)
    produce = ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=(TopicProduceData(name=TOPIC, partition_data=data),)
    )
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    fetch = FetchRequest(
        max_wait_ms=0, min_bytes=0, topics=(FetchTopic(topic=TOPIC, partitions=(partition,)),)
    )
    metadata = MetadataRequest(topics=(MetadataRequestTopic(name=TOPIC),))
    return RepeatedRequest(produce, 9), RepeatedRequest(fetch, 12), RepeatedRequest(metadata, 9)


class SchedulingDelay:
    """The time in which the broker's main thread and this process have waited for a CPU so far."""

    def __init__(self, broker_pid: int) -> None:
        names = (f"/proc/{broker_pid}/task/{broker_pid}/schedstat", "/proc/self/schedstat")
        self._descriptors = [os.open(name, os.O_RDONLY) for name in names]

    def now_ns(self) -> int:
        """Return the sum of both, which is constant after the broker has ended."""
        total = 0
        for descriptor in self._descriptors:
            try:
                total += int(os.pread(descriptor, 100, 0).split()[1])
            except OSError:
                pass
        return total


class PacedConnection:
    """A connection that sends its requests one after the other, each at its time."""

    def __init__(
        self,
        kind: Kind,
        address: tuple[str, int],
        delay: SchedulingDelay,
        requests: Sequence[RepeatedRequest],
    ) -> None:
        self.kind = kind
        self._address = address
        self._delay = delay
        self._requests = requests
        self._next = 0
        self.next_send_ns = time.monotonic_ns()
        self._sent_ns = self._delay_at_start_ns = 0
        self.socket: socket.socket | None = None
        self._received = bytearray()
        self.is_waiting = False
        self.is_connecting = False

    def send(self) -> None:
        """Send the next request, on a new connection if there is none."""
        self._delay_at_start_ns, self._sent_ns = self._delay.now_ns(), time.monotonic_ns()
        self.next_send_ns = self._sent_ns + INTERVAL_NS[self.kind]
        self.is_waiting = True
        if self.socket is None:
            # Without blocking: the measurements of the other connections continue meanwhile.
            self.socket = socket.socket()
            self.socket.setblocking(False)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.is_connecting = self.socket.connect_ex(self._address) == errno.EINPROGRESS
        if not self.is_connecting:
            self._send_frame()

    def on_connected(self) -> None:
        """Send the request that waits for the connection."""
        self.is_connecting = False
        self._send_frame()

    def _send_frame(self) -> None:
        assert self.socket is not None
        try:
            # The frame is small, and the previous one has its response: the kernel takes it at once.
            self.socket.sendall(self._requests[self._next].frame)
        except OSError:
            self._on_failure()

    def receive(self) -> None:
        """Receive bytes; report the response when it is complete."""
        assert self.socket is not None
        try:
            data = self.socket.recv(RECEIVE_BYTES)
        except OSError:
            data = b""
        if not data:
            self._on_failure()
            return
        self._received += data
        size = int.from_bytes(self._received[:4], "big")
        if len(self._received) < 4 or len(self._received) < 4 + size:
            return
        elapsed_ns = time.monotonic_ns() - self._sent_ns
        response = memoryview(bytes(self._received[4 : 4 + size]))
        self._received.clear()
        is_error = self._requests[self._next].is_error(response)
        self._next = (self._next + 1) % len(self._requests)
        self._report(elapsed_ns, is_error)
        if self.kind is Kind.CONNECT:
            self._close()

    def _on_failure(self) -> None:
        self._report(time.monotonic_ns() - self._sent_ns, is_error=True)
        self._close()
        self.next_send_ns = time.monotonic_ns() + RECONNECT_NS

    def _close(self) -> None:
        if self.socket is not None:
            self.socket.close()
        self.socket = None
        self.is_connecting = False
        self._received.clear()

    def _report(self, elapsed_ns: int, is_error: bool) -> None:
        self.is_waiting = False
        delayed_ns = self._delay.now_ns() - self._delay_at_start_ns
        os.write(1, SAMPLE.pack(self.kind, is_error, self._sent_ns, elapsed_ns, delayed_ns))


def main(host: str, port: int, broker_pid: int) -> None:
    """Measure until standard input is closed."""
    address, delay = (host, port), SchedulingDelay(broker_pid)
    probe = (RepeatedRequest(ApiVersionsRequest(), 0),)
    connections = [
        PacedConnection(Kind.PROBE, address, delay, probe),
        PacedConnection(Kind.WORK, address, delay, application_requests()),
        PacedConnection(Kind.CONNECT, address, delay, probe),
    ]
    while True:
        for connection in connections:
            if not connection.is_waiting and connection.next_send_ns <= time.monotonic_ns():
                connection.send()
        waiting: dict[Any, PacedConnection] = {
            each.socket: each for each in connections if each.is_waiting and each.socket is not None
        }
        connecting = [one for one, each in waiting.items() if each.is_connecting]
        next_send_ns = min((each.next_send_ns for each in connections if not each.is_waiting), default=None)
        timeout_s = None if next_send_ns is None else max(next_send_ns - time.monotonic_ns(), 0) / 1e9
        readable, writable, _ = select.select([sys.stdin, *waiting], connecting, [], timeout_s)
        for one in writable:
            waiting[one].on_connected()
        for one in readable:
            if one is sys.stdin:
                return
            if one not in writable:
                waiting[one].receive()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
