"""One connection to one broker (shell): frames, correlation ids, timeouts, version negotiation.

Many requests may be in flight; the broker answers them in order. Any of these ends the connection
and fails all that is in flight: a frame over the bound, an answer that cannot be decoded or is out of
step, a request without an answer in time.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Protocol, TypeVar, cast

from tidelog.clients.transport.api_versions import (
    ApiVersions,
    decode_negotiation,
    fallback_version,
    finalized_features,
    negotiation_request,
)
from tidelog.clients.transport.failures import failure
from tidelog.clients.transport.frames import FrameReader
from tidelog.clients.transport.in_flight import InFlightRequest, InFlightRequests
from tidelog.protocol.codec import decode_prefix
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.framing import encode_request, read_response_header
from tidelog.protocol.messages.api_versions import ApiVersionsResponse
from tidelog.protocol.registry import APIS, ApiKey, response_type
from tidelog.protocol.schema import ApiMessage

_log = logging.getLogger("tidelog.clients.transport.connection")
_CORRELATION_ID_MAX = 2**31 - 1

ResponseT = TypeVar("ResponseT", bound=ApiMessage)
ResponseFuture = asyncio.Future[ApiMessage]


class Authenticator(Protocol):
    """The seam for SASL: runs after version negotiation, before anything else is sent."""

    async def authenticate(self, connection: BrokerConnection) -> None:
        """Prove who we are over `connection`; raise KafkaError when refused."""


class BrokerConnection(asyncio.BufferedProtocol):
    """One open stream to a broker.

    Units: all times in milliseconds of the injected clock.
    Errors: futures get KafkaError(NETWORK_EXCEPTION) when the connection is lost and
    KafkaError(REQUEST_TIMED_OUT) when the answer is late.
    """

    def __init__(
        self,
        *,
        node_id: int,
        client_id: str,
        max_response_bytes: int,
        request_timeout_ms: int,
        monotonic_ms: Callable[[], int],
        receive_buffer_bytes: int = -1,
        send_buffer_bytes: int = -1,
    ) -> None:
        self.node_id = node_id
        self.api_versions = ApiVersions(())
        self.last_used_ms = monotonic_ms()
        self.peer = f"node {node_id}"
        self.in_flight: InFlightRequests[ResponseFuture] = InFlightRequests()
        self.on_writable: Callable[[], None] | None = None
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._monotonic_ms = monotonic_ms
        self._loop = asyncio.get_running_loop()
        self._frames = FrameReader(max_response_bytes)
        self._transport: asyncio.Transport | None = None
        self._next_correlation_id = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ms = 0
        self._closed: KafkaError | None = None
        self._is_paused = False
        self._socket_buffers = {
            socket.SO_RCVBUF: receive_buffer_bytes,
            socket.SO_SNDBUF: send_buffer_bytes,
        }

    # --- asyncio's side -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop when the stream is open."""
        self._transport = cast(asyncio.Transport, transport)
        stream_socket = transport.get_extra_info("socket")
        if stream_socket is not None:
            for option, size in self._socket_buffers.items():
                if size >= 0:
                    stream_socket.setsockopt(socket.SOL_SOCKET, option, size)
        address = transport.get_extra_info("peername")
        if address:
            self.peer = f"node {self.node_id} at {address[0]}:{address[1]}"

    def get_buffer(self, sizehint: int) -> memoryview:
        """Called by the loop: where to receive into."""
        return self._frames.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Called by the loop when bytes have arrived."""
        try:
            for frame in self._frames.received(nbytes):
                self._handle_frame(frame)
        except DecodeError as error:
            text = f"{self.peer} sent something unreadable: {error}"
            self._fail(KafkaError(ErrorCode.CORRUPT_MESSAGE, text))

    def eof_received(self) -> bool:
        """Called by the loop when the broker has closed its side."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop when the stream is gone."""
        reason = f": {exc}" if exc else ""
        self._fail(KafkaError(ErrorCode.NETWORK_EXCEPTION, f"connection to {self.peer} was lost{reason}"))

    def pause_writing(self) -> None:
        """Called by the loop when too much is unsent: the newest request is not yet fully written."""
        self._is_paused = True
        newest = self.in_flight.newest
        if newest is not None:
            newest.send_completed = False

    def resume_writing(self) -> None:
        """Called by the loop when the unsent bytes have drained."""
        self._is_paused = False
        newest = self.in_flight.newest
        if newest is not None:
            newest.send_completed = True
        if self.on_writable is not None:
            self.on_writable()

    # --- the client's side ----------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether requests may be sent."""
        return self._closed is None and self._transport is not None

    def can_send_more(self, max_in_flight: int) -> bool:
        """Whether the in-flight window has room, see `InFlightRequests`."""
        # Requests without answers are not in flight; only the unsent bytes tell that they pile up.
        return self.is_open and not self._is_paused and self.in_flight.can_send_more(max_in_flight)

    def version_of(self, api_key: int, highest: int | None = None) -> int:
        """The version to send `api_key` in on this connection."""
        return self.api_versions.choose(api_key, highest)

    def send(
        self, message: ApiMessage, version: int, *, timeout_ms: int | None = None
    ) -> asyncio.Future[ApiMessage]:
        """Send a request now; the future gets its answer. KafkaError if the connection is closed."""
        transport = self._require_transport()
        correlation_id = self._take_correlation_id()
        frame = encode_request(message.api_key, version, correlation_id, self._client_id, message)
        future: asyncio.Future[ApiMessage] = self._loop.create_future()
        now_ms = self.last_used_ms = self._monotonic_ms()
        deadline_ms = now_ms + (self._request_timeout_ms if timeout_ms is None else timeout_ms)
        request = InFlightRequest(correlation_id, message.api_key, version, now_ms, deadline_ms, future)
        self.in_flight.add(request)
        self._arm_timer(deadline_ms, now_ms)
        transport.write(frame)
        return future

    def send_unanswered(self, message: ApiMessage, version: int) -> None:
        """Send a request that the broker does not answer (Produce with acks=0)."""
        transport = self._require_transport()
        correlation_id = self._take_correlation_id()
        self.last_used_ms = self._monotonic_ms()
        transport.write(encode_request(message.api_key, version, correlation_id, self._client_id, message))

    async def request(
        self,
        message: ApiMessage,
        response: type[ResponseT],
        *,
        highest_version: int | None = None,
        timeout_ms: int | None = None,
    ) -> ResponseT:
        """Send a request in the best common version and await its answer."""
        version = self.version_of(message.api_key, highest_version)
        answer = await self.send(message, version, timeout_ms=timeout_ms)
        assert isinstance(answer, response)
        return answer

    async def negotiate(self) -> None:
        """Learn which versions the broker speaks; falls back to the version it names, else to 0."""
        version = APIS[ApiKey.API_VERSIONS].highest
        response = await self._ask_versions(version)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            response = await self._ask_versions(fallback_version(response))
        if response.error_code != ErrorCode.NONE:
            raise failure(response.error_code, f"ApiVersions to {self.peer}")
        self.api_versions = ApiVersions(response.api_keys, finalized_features(response))

    def close(self) -> None:
        """Close the stream; what is in flight fails."""
        self._fail(KafkaError(ErrorCode.NETWORK_EXCEPTION, f"connection to {self.peer} was closed by us"))

    # --- inside ---------------------------------------------------------------------------

    async def _ask_versions(self, version: int) -> ApiVersionsResponse:
        answer = await self.send(negotiation_request(), version)
        assert isinstance(answer, ApiVersionsResponse)
        return answer

    def _require_transport(self) -> asyncio.Transport:
        if self._closed is not None or self._transport is None:
            text = f"connection to {self.peer} is not open"
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, text)
        return self._transport

    def _take_correlation_id(self) -> int:
        self._next_correlation_id += 1
        if self._next_correlation_id == _CORRELATION_ID_MAX:
            self._fail(KafkaError(ErrorCode.NETWORK_EXCEPTION, f"correlation ids of {self.peer} are used up"))
        return self._next_correlation_id

    def _handle_frame(self, frame: memoryview) -> None:
        oldest = self.in_flight.oldest
        if oldest is None:
            raise DecodeError(f"an answer of {len(frame)} bytes that nobody asked for")
        correlation_id, position = read_response_header(frame, oldest.api_key, oldest.api_version)
        request = self.in_flight.complete_next(correlation_id)
        if request is None:
            expected = oldest.correlation_id
            raise DecodeError(f"answer {correlation_id} out of step: {expected} is the oldest request")
        body = frame[position:]
        answer: ApiMessage
        try:
            if request.api_key == ApiKey.API_VERSIONS:
                answer = decode_negotiation(body, request.api_version)
            else:
                # As Kafka's clients do, bytes behind the answer are not minded: there are brokers that
                # send some.
                answer, _ = decode_prefix(response_type(request.api_key), body, request.api_version, 0)
        except DecodeError as error:
            _set_exception(request.context, KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self.peer}: {error}"))
            raise
        if not request.context.done():
            request.context.set_result(answer)

    def _arm_timer(self, due_ms: int, now_ms: int) -> None:
        if self._timer is not None:
            if self._timer_due_ms <= due_ms:
                return
            self._timer.cancel()
        self._timer_due_ms = due_ms
        self._timer = self._loop.call_later(max(0, due_ms - now_ms) / 1000, self._check_timeouts)

    def _check_timeouts(self) -> None:
        self._timer = None
        now_ms = self._monotonic_ms()
        late = self.in_flight.first_timed_out(now_ms)
        if late is not None:
            name = APIS[late.api_key].name
            text = f"{self.peer} did not answer {name} within {late.deadline_ms - late.sent_ms} ms"
            self._fail(KafkaError(ErrorCode.REQUEST_TIMED_OUT, text))
            return
        next_ms = self.in_flight.next_deadline_ms()
        if next_ms is not None:
            self._arm_timer(next_ms, now_ms)

    def _fail(self, error: KafkaError) -> None:
        if self._closed is not None:
            return
        self._closed = error
        _log.debug("%s", error)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.abort() if self.in_flight.oldest else self._transport.close()
        for request in self.in_flight.clear():
            _set_exception(request.context, KafkaError(error.code, str(error)))
        if self.on_writable is not None:
            self.on_writable()


def _set_exception(future: asyncio.Future[ApiMessage], error: KafkaError) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # an abandoned request is not worth a warning of the loop
