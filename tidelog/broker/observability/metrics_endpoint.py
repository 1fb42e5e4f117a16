"""A small HTTP server for two paths: /metrics for Prometheus and /healthz for supervisors of brokers.

    GET /metrics   200, all metrics as text; 401 without the token, if one is configured
    GET /healthz   200 "ok" while the broker is healthy, otherwise 503 and the reason
    others         404 for another path, 405 for another method

A connection serves one request. /healthz needs no token, so that supervisors need no secret; without the
token it does not show the reason.

Bounds: REQUEST_BYTES of request head, REQUEST_S seconds to send it and as many to read the response; a
connection that exceeds them is aborted. A TLS handshake may take REQUEST_S, too. CONNECTIONS_MAX connections
at a time, with those whose handshake is incomplete: for a further one, the oldest connection without a
request is aborted, or else the oldest connection. Metrics are rendered for one connection at a time, piece by
piece, and the broker serves requests in between.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, cast

from tidelog.broker.network.acceptor import Acceptor
from tidelog.broker.network.listening_socket import bound_socket
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.broker.observability.metrics_access import MetricsAccess, MetricsGuard

if TYPE_CHECKING:
    from tidelog.broker.observability.exposition import Exposition

logger = logging.getLogger(__name__)

REQUEST_BYTES: Final = 8 * 1024
REQUEST_S: Final = 5.0
REFRESH_INTERVAL_S: Final = 10.0
CONNECTIONS_MAX: Final = 16
ACCEPT_QUEUE: Final = 128
_CHALLENGE: Final = 'WWW-Authenticate: Bearer realm="tidelog"\r\n'
_PLAIN: Final = "text/plain; charset=utf-8"


class MetricsEndpoint:
    """Serves the metrics and the health of one broker."""

    def __init__(
        self,
        metrics: BrokerMetrics,
        unhealthy_reason: Callable[[], str | None] = lambda: None,
        access: MetricsAccess | None = None,
    ) -> None:
        """Create the endpoint, which listens after `start`.

        `unhealthy_reason` returns the reason why the broker is unhealthy, or None if it is healthy. Without
        `access`, every client may read the metrics.
        """
        self._guard = MetricsGuard(access or MetricsAccess())
        self._metrics = metrics
        self._unhealthy_reason = unhealthy_reason
        self._exposition: Exposition | None = None
        self._acceptor: Acceptor | None = None
        self._port = 0
        self._connections: dict[asyncio.Task[None], None] = {}
        """The connections, the oldest first."""
        self._awaiting_request: dict[asyncio.Task[None], None] = {}
        """The connections whose request has not been received, the oldest first."""
        self._render_lock = asyncio.Lock()
        self._refresh_task: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The port of the listening socket; it differs from the configured port if that is 0."""
        assert self._acceptor is not None, "the endpoint has not been started"
        return self._port

    async def start(self, host: str, port: int) -> None:
        """Listen; "" means all addresses.

        Errors: OSError if the address cannot be bound; ConfigError for a wrong certificate or token.
        """
        if self._guard.has_files:
            await asyncio.to_thread(self._guard.load)
        loop = asyncio.get_running_loop()
        listening_socket = bound_socket("The metrics endpoint", host, port)
        self._port = listening_socket.getsockname()[1]
        self._acceptor = Acceptor("of metrics", listening_socket, loop, self._on_accepted)
        self._acceptor.start(ACCEPT_QUEUE)
        if self._guard.has_files:
            self._refresh_task = loop.create_task(self._refresh())

    async def close(self) -> None:
        """Stop listening and abort the connections."""
        if self._acceptor is not None:
            self._acceptor.stop()
        if self._refresh_task is not None:
            self._refresh_task.cancel()
        tasks = list(self._connections)
        for task in tasks:
            self._abort(task)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _refresh(self) -> None:
        """Read changed certificates and tokens."""
        while True:
            await asyncio.sleep(REFRESH_INTERVAL_S)
            await asyncio.to_thread(self._guard.refresh)

    def _on_accepted(self, client: socket.socket) -> None:
        if len(self._connections) >= CONNECTIONS_MAX:
            self._abort(next(iter(self._awaiting_request or self._connections)))
        task = asyncio.get_running_loop().create_task(self._serve(client))
        self._connections[task] = None
        self._awaiting_request[task] = None

        def on_done(_: asyncio.Task[None]) -> None:
            self._discard(task)
            # A task that is cancelled before it starts never runs.
            client.close()

        task.add_done_callback(on_done)

    def _abort(self, task: asyncio.Task[None]) -> None:
        task.cancel()
        self._discard(task)

    def _discard(self, task: asyncio.Task[None]) -> None:
        self._connections.pop(task, None)
        self._awaiting_request.pop(task, None)

    async def _open(self, client: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return the streams of a connection, after its handshake with TLS."""
        client.setblocking(False)
        loop, context = asyncio.get_running_loop(), self._guard.context
        reader = asyncio.StreamReader(limit=REQUEST_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol,
            client,
            ssl=context,
            ssl_handshake_timeout=None if context is None else REQUEST_S,
        )
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    async def _serve(self, client: socket.socket) -> None:
        writer: asyncio.StreamWriter | None = None
        try:
            reader, writer = await self._open(client)
            async with asyncio.timeout(REQUEST_S):
                head = await reader.readuntil(b"\r\n\r\n")
            self._awaiting_request.pop(cast(asyncio.Task[None], asyncio.current_task()), None)
            response = await self._respond(head)
            async with asyncio.timeout(REQUEST_S):
                writer.write(response)
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        except Exception:
            logger.exception("Cannot serve a request to the metrics endpoint; closing its connection")
        finally:
            if writer is not None:
                writer.transport.abort()

    async def _respond(self, head: bytes) -> bytes:
        """Return the response to a request with `head`, as the head of the file describes."""
        lines = head.decode("latin-1").split("\r\n")
        method, _, rest = lines[0].partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        if path not in ("/metrics", "/healthz"):
            return _response(HTTPStatus.NOT_FOUND, b"not found\n")
        if method not in ("GET", "HEAD"):
            return _response(HTTPStatus.METHOD_NOT_ALLOWED, b"GET only\n")
        has_body = method == "GET"
        is_allowed = self._guard.is_allowed(_field(lines, "authorization"))
        if path == "/healthz":
            reason = self._unhealthy_reason()
            if reason is not None:
                text = reason if is_allowed else "unhealthy"
                return _response(HTTPStatus.SERVICE_UNAVAILABLE, f"{text}\n".encode(), _PLAIN, has_body)
            return _response(HTTPStatus.OK, b"ok\n", _PLAIN, has_body)
        if not is_allowed:
            return _response(HTTPStatus.UNAUTHORIZED, b"a bearer token is required\n", _PLAIN, has_body)
        body, content_type = await self._render(_field(lines, "accept"))
        return _response(HTTPStatus.OK, body, content_type, has_body)

    async def _render(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics in the format that `accept` prefers, and its content type."""
        async with self._render_lock:
            if self._exposition is None:
                # At the first scrape and in a thread, because importing the library takes 20 ms.
                loop = asyncio.get_running_loop()
                self._exposition = await loop.run_in_executor(None, _create_exposition, self._metrics)
            pieces = []
            for piece in self._exposition.pieces(accept):
                pieces.append(piece)
                await asyncio.sleep(0)
            return b"".join(pieces), self._exposition.content_type(accept)


def _create_exposition(metrics: BrokerMetrics) -> Exposition:
    from tidelog.broker.observability.exposition import Exposition

    return Exposition(metrics)


def _field(lines: Sequence[str], field_name: str) -> str:
    """Return the value of a header field; "" if there is none. `field_name` is in lower case."""
    fields = (line.partition(":") for line in lines[1:])
    return next((value.strip() for name, _, value in fields if name.strip().lower() == field_name), "")


def _response(status: HTTPStatus, body: bytes, content_type: str = _PLAIN, has_body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        f"Content-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\n"
        f"{_CHALLENGE if status is HTTPStatus.UNAUTHORIZED else ''}"
        "Connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (body if has_body else b"")
