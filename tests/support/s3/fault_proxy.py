"""A proxy between an S3 client and its server that injects faults.

    with fault_proxy(server.endpoint) as proxy:
        proxy.inject(slow_down(), method="PUT", times=3)          the next three puts
        proxy.inject(truncate(keep=100), matching=r"\\.log$")       every response about a log file
        rule = proxy.inject(reset(), probability=0.1)             one request in ten, from one seed
        ...; rule.hits; proxy.clear()
        proxy.stop_listening(); ...; proxy.resume_listening()     connections are refused in between

The first matching rule applies to a request. `rule.hits` and `proxy.faults` count faults, `proxy.requests`
counts requests. Each request is forwarded on a connection of its own with the client's Host header, so
signatures stay valid.
"""

from __future__ import annotations

import http.client
import re
import socket
import struct
import threading
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Any, NamedTuple
from urllib.parse import urlsplit

_RECENT_REQUESTS_MAX = 1000


@dataclass(frozen=True)
class Fault:
    """An injected fault. `kind` is its name in counters.

    `reaches_server`: the server processes the request; the fault affects only the response.
    """

    kind: str
    reaches_server: bool = False
    status: int = 0
    code: str = ""
    keep_bytes: int | None = None
    bytes_per_s: float | None = None
    body: bytes | None = None


def server_error(status: int = 500, code: str = "InternalError") -> Fault:
    """Return an error response in S3's format; the server gets no request."""
    return Fault("error", status=status, code=code)


def slow_down() -> Fault:
    """Return S3's throttling error."""
    return Fault("slow_down", status=503, code="SlowDown")


def reset() -> Fault:
    """Reset the connection instead of a response; the server gets no request."""
    return Fault("reset")


def lost_response() -> Fault:
    """Reset the connection instead of a response, after the server processed the request."""
    return Fault("lost_response", reaches_server=True)


def silence() -> Fault:
    """Accept the request and never respond."""
    return Fault("silence")


def truncate(keep: int) -> Fault:
    """End the body of the response and the connection after `keep` bytes, despite Content-Length."""
    return Fault("truncate", reaches_server=True, keep_bytes=keep)


def response_fault(status: int, body: bytes) -> Fault:
    """Return a given response; the server gets no request."""
    return Fault("canned", status=status, body=body)


def slow_response(bytes_per_s: float) -> Fault:
    """Send the response slowly."""
    return Fault("slow", reaches_server=True, bytes_per_s=bytes_per_s)


@dataclass
class Rule:
    """A fault and the requests that it affects."""

    fault: Fault
    method: str | None
    matching: re.Pattern[str] | None
    probability: float
    remaining: int | None
    hits: int = 0

    def matches(self, method: str, target: str, random: Random) -> bool:
        """Return whether this request is affected."""
        return (
            self.remaining != 0
            and self.method in (None, method)
            and (self.matching is None or self.matching.search(target) is not None)
            and (self.probability >= 1 or random.random() < self.probability)
        )


class ReceivedRequest(NamedTuple):
    """A received request."""

    method: str
    target: str
    headers: dict[str, str]


@dataclass
class _State:
    upstream: str
    random: Random
    lock: threading.Lock = field(default_factory=threading.Lock)
    rules: list[Rule] = field(default_factory=list)
    requests: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    connections: set[socket.socket] = field(default_factory=set)
    accepted: int = 0
    recent_requests: deque[ReceivedRequest] = field(
        default_factory=lambda: deque(maxlen=_RECENT_REQUESTS_MAX)
    )
    released: threading.Event = field(default_factory=threading.Event)


class FaultProxy:
    """A running proxy; its methods are thread-safe."""

    def __init__(self, upstream: str, seed: int) -> None:
        self._state = _State(urlsplit(upstream).netloc, Random(seed))
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None
        self._port = 0
        self.resume_listening()

    @property
    def endpoint(self) -> str:
        """Return the URL for clients; it stays the same across `stop_listening` and `resume_listening`."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def requests(self) -> Counter[str]:
        """Return the number of requests by method."""
        return self._state.requests

    @property
    def faults(self) -> Counter[str]:
        """Return the number of faults by kind."""
        return self._state.faults

    @property
    def recent_requests(self) -> list[ReceivedRequest]:
        """Return the last 1,000 requests."""
        return list(self._state.recent_requests)

    @property
    def accepted(self) -> int:
        """Return the number of accepted connections."""
        return self._state.accepted

    @property
    def open_connections(self) -> int:
        """Return the number of open connections."""
        return len(self._state.connections)

    def inject(
        self,
        fault: Fault,
        *,
        method: str | None = None,
        matching: str | None = None,
        probability: float = 1.0,
        times: int | None = None,
    ) -> Rule:
        """Apply `fault` to requests of `method` whose target (path and query) matches `matching`."""
        rule = Rule(fault, method, re.compile(matching) if matching else None, probability, times)
        with self._state.lock:
            self._state.rules.append(rule)
        return rule

    def clear(self) -> None:
        """Remove all faults; close connections that wait for a response."""
        with self._state.lock:
            self._state.rules.clear()
            self._state.released.set()
            self._state.released = threading.Event()

    def stop_listening(self) -> None:
        """Close all connections and the listener: new connections are refused."""
        server, thread = self._server, self._thread
        if server is None or thread is None:
            return
        self._server = None
        server.is_down = True
        server.shutdown()
        server.server_close()
        thread.join()
        with self._state.lock:
            self._state.released.set()
            self._state.released = threading.Event()
            connections = list(self._state.connections)
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def resume_listening(self) -> None:
        """Listen again at the same address."""
        if self._server is None:
            self._server = _Server(("127.0.0.1", self._port), self._state)
            self._port = self._server.server_address[1]
            self._thread = threading.Thread(
                target=self._server.serve_forever,
                kwargs={"poll_interval": 0.02},
                name="fault-proxy",
                daemon=True,
            )
            self._thread.start()


@contextmanager
def fault_proxy(upstream: str, seed: int = 0) -> Iterator[FaultProxy]:
    """Yield a proxy for the server at the URL `upstream`."""
    proxy = FaultProxy(upstream, seed)
    try:
        yield proxy
    finally:
        proxy.stop_listening()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 128
    is_down = False

    def __init__(self, address: tuple[str, int], state: _State) -> None:
        self.state = state
        super().__init__(address, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore disconnected clients, which are expected."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        with self.server.state.lock:
            self.server.state.connections.add(self.connection)
            self.server.state.accepted += 1

    def finish(self) -> None:
        with self.server.state.lock:
            self.server.state.connections.discard(self.connection)
        with suppress(OSError):
            super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def _handle_request(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.server.is_down:
            self._close_connection()
            return
        state = self.server.state
        with state.lock:
            state.requests[self.command] += 1
            headers = {name.lower(): value for name, value in self.headers.items()}
            state.recent_requests.append(ReceivedRequest(self.command, self.path, headers))
            released = state.released
            fitting = (rule for rule in state.rules if rule.matches(self.command, self.path, state.random))
            rule = next(fitting, None)
            if rule is not None:
                rule.hits += 1
                state.faults[rule.fault.kind] += 1
                if rule.remaining is not None:
                    rule.remaining -= 1
        fault = rule.fault if rule is not None else None
        if fault is not None and not fault.reaches_server:
            self._refuse(fault, released)
            return
        self._pass_on(body, fault, released)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _handle_request

    def _refuse(self, fault: Fault, released: threading.Event) -> None:
        if fault.kind == "silence":
            released.wait()
        if not fault.status:
            self._close_connection()
            return
        text = f"<?xml version='1.0'?><Error><Code>{fault.code}</Code><Message>injected</Message></Error>"
        content = text.encode() if fault.body is None else fault.body
        content = b"" if self.command == "HEAD" else content
        self.send_response(fault.status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _pass_on(self, body: bytes, fault: Fault | None, released: threading.Event) -> None:
        upstream = http.client.HTTPConnection(self.server.state.upstream, timeout=60)
        try:
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in ("connection", "expect"):
                    upstream.putheader(name, value)
            upstream.putheader("Connection", "close")
            with suppress(ConnectionError):  # a server may refuse a request before it has read the whole body
                upstream.endheaders(body or None)
            response = upstream.getresponse()
            if fault is not None and fault.kind == "lost_response":
                response.read()
                self._close_connection()
                return
            self._send_response(response, fault, released)
        except OSError:
            self._close_connection()
        finally:
            upstream.close()

    def _send_response(
        self, response: http.client.HTTPResponse, fault: Fault | None, released: threading.Event
    ) -> None:
        content = response.read()
        length = response.getheader("Content-Length") if self.command == "HEAD" else str(len(content))
        self.send_response_only(response.status, response.reason)
        for name, value in response.getheaders():
            if name.lower() not in ("connection", "transfer-encoding", "content-length", "keep-alive"):
                self.send_header(name, value)
        if length is not None and response.status != 204:
            self.send_header("Content-Length", length)
        self.end_headers()
        if fault is not None and fault.bytes_per_s is not None:
            self._send_slowly(content, fault.bytes_per_s, released)
        elif fault is not None and fault.keep_bytes is not None:
            self.wfile.write(content[: fault.keep_bytes])
            self.close_connection = True
        else:
            self.wfile.write(content)

    def _send_slowly(self, content: bytes, bytes_per_s: float, released: threading.Event) -> None:
        """Send the bytes of a twentieth of a second, at least one."""
        step = max(1, int(bytes_per_s / 20))
        for start in range(0, len(content), step):
            self.wfile.write(content[start : start + step])
            if released.wait(step / bytes_per_s):
                self._close_connection()
                return

    def _close_connection(self) -> None:
        self.close_connection = True
        _reset(self.connection)


def _reset(connection: socket.socket) -> None:
    """Close a connection with a TCP reset, even if another thread reads from it."""
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RD)
    with suppress(OSError):
        connection.close()
