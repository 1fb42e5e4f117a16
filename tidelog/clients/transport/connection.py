"""One connection to one broker (shell): frames, correlation ids, timeouts, version negotiation.

Many requests may be in flight; the broker responds in order. The connection is closed, and all requests in
flight fail, after one of these: a frame over the limit, a response that cannot be decoded, a response with an
unexpected correlation id, or a request without a response in time.
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
from tidelog.clients.transport.failures import copy_of, failure
from tidelog.clients.transport.frames import FrameReader
from tidelog.clients.transport.in_flight import InFlightRequest, InFlightRequests
from tidelog.clients.transport.reauthentication import Reauthentication
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
    """Authenticates a connection, after version negotiation and before any other request."""

    async def authenticate(self, connection: BrokerConnection) -> int:
        """Authenticate over `connection`; raise KafkaError if the broker rejects it.

        Returns the lifetime of the session in milliseconds; 0 means no limit.
        """


class BrokerConnection(asyncio.BufferedProtocol):
    """One open stream to a broker.

    Units: all times are in milliseconds of the given clock.
    Errors: futures fail with KafkaError(NETWORK_EXCEPTION) if the connection is lost, and with
    KafkaError(REQUEST_TIMED_OUT) if the response is late.
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
        self._on_writable: Callable[[], None] = _do_nothing
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._monotonic_ms = monotonic_ms
        self._loop = asyncio.get_running_loop()
        self._frames = FrameReader(max_response_bytes)
        self._transport: asyncio.Transport | None = None
        self._last_correlation_id = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = 0
        self._closed: KafkaError | None = None
        self._is_paused = False
        self._reauthentication: Reauthentication | None = None
        """None unless the session expires."""
        self._socket_buffers = {
            socket.SO_RCVBUF: receive_buffer_bytes,
            socket.SO_SNDBUF: send_buffer_bytes,
        }

    # --- callbacks of asyncio -------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set the transport, its socket buffers and the peer's address."""
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
        """Return the buffer for the next received bytes."""
        return self._frames.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Handle the frames that are complete with the received bytes."""
        try:
            for frame in self._frames.on_received(nbytes):
                self._handle_frame(frame)
        except DecodeError as error:
            text = f"cannot decode data from {self.peer}: {error}"
            self._fail(KafkaError(ErrorCode.CORRUPT_MESSAGE, text))

    def eof_received(self) -> bool:
        """Close the transport: the broker has closed its side."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail all requests in flight."""
        reason = f": {exc}" if exc else ""
        error = KafkaError(ErrorCode.NETWORK_EXCEPTION, f"connection to {self.peer} was lost{reason}")
        error.__cause__ = exc
        self._fail(error)

    def pause_writing(self) -> None:
        """Mark the newest request as not completely sent."""
        self._is_paused = True
        newest = self.in_flight.newest
        if newest is not None:
            newest.on_send_paused()

    def resume_writing(self) -> None:
        """Mark the newest request as sent, and notify the sender."""
        self._is_paused = False
        newest = self.in_flight.newest
        if newest is not None:
            newest.on_sent()
        self._on_writable()

    # --- requests -------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether requests may be sent."""
        return self._closed is None and self._transport is not None

    def can_send_more(self, max_in_flight: int) -> bool:
        """Return whether another request may be sent; see `InFlightRequests`."""
        # Requests without responses (acks=0) are not in flight; only the unsent bytes limit them.
        reauthentication = self._reauthentication
        if reauthentication is not None and reauthentication.is_active:
            return False
        return self.is_open and not self._is_paused and self.in_flight.can_send_more(max_in_flight)

    def call_when_writable(self, callback: Callable[[], None]) -> None:
        """Call `callback` from now on when another request may be sent, and when the connection is closed."""
        self._on_writable = callback

    def version_of(self, api_key: int, highest: int | None = None) -> int:
        """Return the negotiated version of `api_key`, at most `highest`."""
        return self.api_versions.choose(api_key, highest)

    def send(self, message: ApiMessage, version: int, *, timeout_ms: int | None = None) -> ResponseFuture:
        """Send a request; return the future of its response. Raise KafkaError if the connection is closed."""
        future: ResponseFuture = self._loop.create_future()
        reauthentication = self._reauthentication
        if reauthentication is not None and reauthentication.holds(message.api_key):
            reauthentication.hold(
                lambda: self._send(message, version, future, timeout_ms),
                lambda error: _set_exception(future, error),
            )
        else:
            self._send(message, version, future, timeout_ms)
        return future

    def _send(
        self, message: ApiMessage, version: int, future: ResponseFuture, timeout_ms: int | None
    ) -> None:
        transport = self._require_transport()
        correlation_id = self._take_correlation_id()
        frame = encode_request(message.api_key, version, correlation_id, self._client_id, message)
        now_ms = self.last_used_ms = self._monotonic_ms()
        deadline_ms = now_ms + (self._request_timeout_ms if timeout_ms is None else timeout_ms)
        request = InFlightRequest(correlation_id, message.api_key, version, now_ms, deadline_ms, future)
        self.in_flight.add(request)
        self._arm_timer(deadline_ms, now_ms)
        transport.write(frame)

    def send_without_response(self, message: ApiMessage, version: int) -> None:
        """Send a request that has no response (Produce with acks=0)."""
        reauthentication = self._reauthentication
        if reauthentication is not None and reauthentication.holds(message.api_key):
            reauthentication.hold(lambda: self._send_without_response(message, version), _ignore)
        else:
            self._send_without_response(message, version)

    def _send_without_response(self, message: ApiMessage, version: int) -> None:
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
        """Send a request in the highest common version, and return its response."""
        version = self.version_of(message.api_key, highest_version)
        received = await self.send(message, version, timeout_ms=timeout_ms)
        assert isinstance(received, response)
        return received

    async def authenticate(self, authenticator: Authenticator) -> None:
        """Authenticate now, and again each time before the session expires. Raise KafkaError if it fails."""
        lifetime_ms = await authenticator.authenticate(self)
        if lifetime_ms > 0:
            self._reauthentication = Reauthentication(
                lambda: authenticator.authenticate(self), self._on_reauthenticated, self._fail
            )
            self._reauthentication.schedule(lifetime_ms)

    async def negotiate(self) -> None:
        """Get the versions that the broker supports; use a lower ApiVersions version if it requires that."""
        version = APIS[ApiKey.API_VERSIONS].highest
        response = await self._request_versions(version)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            response = await self._request_versions(fallback_version(response))
        if response.error_code != ErrorCode.NONE:
            raise failure(response.error_code, f"ApiVersions to {self.peer}")
        self.api_versions = ApiVersions(response.api_keys, finalized_features(response))

    def close(self) -> None:
        """Close the stream; requests in flight fail."""
        self._fail(
            KafkaError(ErrorCode.NETWORK_EXCEPTION, f"connection to {self.peer} was closed by the client")
        )

    # --- inside ---------------------------------------------------------------------------

    def _on_reauthenticated(self) -> None:
        self._on_writable()

    async def _request_versions(self, version: int) -> ApiVersionsResponse:
        received = await self.send(negotiation_request(), version)
        assert isinstance(received, ApiVersionsResponse)
        return received

    def _require_transport(self) -> asyncio.Transport:
        if self._closed is not None or self._transport is None:
            text = f"connection to {self.peer} is not open"
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, text)
        return self._transport

    def _take_correlation_id(self) -> int:
        if self._last_correlation_id == _CORRELATION_ID_MAX:
            text = f"the connection to {self.peer} has used all correlation ids"
            error = KafkaError(ErrorCode.NETWORK_EXCEPTION, text)
            self._fail(error)
            raise error
        self._last_correlation_id += 1
        return self._last_correlation_id

    def _handle_frame(self, frame: memoryview) -> None:
        oldest = self.in_flight.oldest
        if oldest is None:
            raise DecodeError(f"unexpected response of {len(frame)} bytes: no request is in flight")
        correlation_id, position = read_response_header(frame, oldest.api_key, oldest.api_version)
        request = self.in_flight.complete_next(correlation_id)
        if request is None:
            expected = oldest.correlation_id
            raise DecodeError(
                f"unexpected correlation id {correlation_id}: the oldest request has {expected}"
            )
        body = frame[position:]
        response: ApiMessage
        try:
            if request.api_key == ApiKey.API_VERSIONS:
                response = decode_negotiation(body, request.api_version)
            else:
                # Bytes after the response are ignored, as in Kafka's clients: some brokers send them.
                response, _ = decode_prefix(response_type(request.api_key), body, request.api_version, 0)
        except DecodeError as error:
            _set_exception(request.context, KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self.peer}: {error}"))
            raise
        if not request.context.done():
            request.context.set_result(response)

    def _arm_timer(self, at_ms: int, now_ms: int) -> None:
        if self._timer is not None:
            if self._timer_at_ms <= at_ms:
                return
            self._timer.cancel()
        self._timer_at_ms = at_ms
        self._timer = self._loop.call_later(max(0, at_ms - now_ms) / 1000, self._check_timeouts)

    def _check_timeouts(self) -> None:
        self._timer = None
        now_ms = self._monotonic_ms()
        late = self.in_flight.first_timed_out(now_ms)
        if late is not None:
            name = APIS[late.api_key].name
            text = f"{self.peer} did not respond to {name} within {late.deadline_ms - late.sent_ms} ms"
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
            if self.in_flight.oldest is None:
                self._transport.close()
            else:
                self._transport.abort()
        for request in self.in_flight.clear():
            _set_exception(request.context, copy_of(error))
        if self._reauthentication is not None:
            self._reauthentication.close(error)
        self._on_writable()


def _do_nothing() -> None:
    """Do nothing: the connection has no listener."""


def _ignore(error: KafkaError) -> None:
    """Do nothing: a request without a response is lost with its connection."""


def _set_exception(future: ResponseFuture, error: KafkaError) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # otherwise asyncio logs an error if no task awaits the request
