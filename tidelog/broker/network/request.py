"""One request that a connection has received and that has no response yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, TypeVar

from tidelog.broker.network.connected_client import ConnectedClient
from tidelog.broker.network.receive_buffer import ReceiveBuffer
from tidelog.broker.network.request_metrics import ApiMetrics, RequestWaits
from tidelog.protocol.framing import RequestHeader
from tidelog.protocol.steps import Steps
from tidelog.storage.segment.file_slice import FileSlice

T = TypeVar("T")

# The parts of a response; the bytes of all parts together are whole frames, sizes included.
ResponsePart: TypeAlias = bytes | bytearray | memoryview | FileSlice
Response: TypeAlias = bytes | Sequence[ResponsePart] | None

_NO_HEADER = RequestHeader(-1, -1, -1, None)
_NO_BODY = memoryview(b"")


class Route(Protocol):
    """The handler of an API, which the dispatcher has selected for a request."""

    metrics: ApiMetrics
    may_wait: bool
    """Whether a request waits while many other long requests are served."""

    def fail(self, request: Request, error: BaseException) -> None:
        """Send the error response of this API for `error`."""
        ...


class Quota(Protocol):
    """The quota of the client of one request; the dispatcher sets it if any client has a quota.

    One of the `throttle` methods is called just before the response. They mute the connection if the client
    exceeds a quota, and return the throttle time in milliseconds for the response.
    """

    def exempt(self) -> None:
        """Exempt the request from the quota of request time."""
        ...

    def fetch_bytes_max(self) -> int:
        """Return how many bytes a Fetch may return without being throttled in any case."""
        ...

    def throttle(self, request: Request, controller_throttle_time_ms: int = 0) -> int:
        """Return the throttle time for the response; that of the controller if it is longer."""
        ...

    def throttle_fetch(self, request: Request, size_bytes: int, *, keeps_records: bool = False) -> int:
        """Return the throttle time for a Fetch.

        If it is not 0, the response must contain no records, except with `keeps_records`: a ShareFetch has
        acquired its records.
        """
        ...

    def on_handler_return(self, elapsed_ns: int) -> None:
        """Record that the handler has run for `elapsed_ns`."""
        ...

    def measured(self, steps: Steps[T]) -> Steps[T]:
        """Return the same steps; record the time of those that run after the handler has returned."""
        ...


class Throttle(Protocol):
    """Mutes one connection; implemented by ConnectionThrottle."""

    def mute(self, throttle_time_ms: int) -> None:
        """Handle no further frame; see Request.throttle."""
        ...


class Times(Protocol):
    """Measures the waits of the requests of one connection; implemented by ConnectionTimes."""

    def begin_remote_time(self, request: Request) -> int:
        """Record the start of a wait; see Request.begin_remote_time."""
        ...

    def end_queue_time(self, request: Request) -> None:
        """Record the end of a wait for a slot; see Request.end_queue_time."""
        ...


class RequestConnection(Protocol):
    """The part of a connection that its requests use; implemented by Connection."""

    address: str
    peer: str
    listener: str
    client: ConnectedClient
    buffer: ReceiveBuffer

    @property
    def throttle(self) -> Throttle:
        """Mutes the connection."""
        ...

    @property
    def times(self) -> Times:
        """Measures the waits of requests."""
        ...

    def can_respond_to(self, request: Request) -> bool:
        """Return whether `request` can still get a response."""
        ...

    def release_frame(self, request: Request, *, keeps_message: bool) -> None:
        """Release the memory of the frame; see Request.release_frame."""
        ...

    def park(self, request: Request) -> None:
        """Park the request; see Request.park."""
        ...

    def respond(self, request: Request, response: Response) -> None:
        """Send the response; see Request.respond."""
        ...

    def fail(self, reason: str) -> None:
        """Log `reason`, and close when the written responses are sent."""
        ...

    def reject(self, request: Request, reason: str) -> None:
        """Close the connection; see Request.close."""
        ...


class Request:
    """A frame and the state of its processing.

    `frame` is the whole frame without its size; the dispatcher passes `header`, `body` and `route`. `frame`
    and `body` are writable views, which are valid only until `respond`, `release_frame`, `park` or `close`.
    Then the memory is used for the next request. `received_ms` is wall time, `started_ns` is monotonic time.

    Both callbacks are optional. `on_abandoned` exists while a request only waits for an event or a timeout.
    It is called if the client closes its side before the response. `on_lost` exists while a handler needs a
    long time for the request. It is called if the whole connection ends.

    Exactly one of `respond`, `fail` and `close` must be called, at once or later, on the event loop.
    """

    __slots__ = (
        "__weakref__",
        "body",
        "connection",
        "frame",
        "header",
        "on_abandoned",
        "on_lost",
        "quota",
        "received_ms",
        "route",
        "started_ns",
        "waits",
    )

    def __init__(
        self, connection: RequestConnection, frame: memoryview, received_ms: int, started_ns: int
    ) -> None:
        self.connection = connection
        self.frame = frame
        self.received_ms = received_ms
        self.started_ns = started_ns
        self.header = _NO_HEADER
        self.body = _NO_BODY
        self.quota: Quota | None = None
        """None if no client has a quota."""
        self.route: Route | None = None
        self.on_abandoned: Callable[[Request], None] | None = None
        self.on_lost: Callable[[Request], None] | None = None
        self.waits: RequestWaits | None = None

    @property
    def peer(self) -> str:
        """The address of the client, host:port."""
        return self.connection.peer

    @property
    def listener(self) -> str:
        """The name of the listener that received the request."""
        return self.connection.listener

    @property
    def client_address(self) -> str:
        """The address of the client without its port."""
        return self.connection.address

    @property
    def principal(self) -> str:
        """The authenticated principal, for example User:ANONYMOUS."""
        return self.connection.client.principal

    @property
    def client(self) -> ConnectedClient:
        """The client of the connection."""
        return self.connection.client

    @property
    def is_open(self) -> bool:
        """Whether the request has no response yet and can still get one."""
        return self.connection.can_respond_to(self)

    def on_dispatched(self, header: RequestHeader, body: memoryview, route: Route) -> None:
        """Keep the header, the body and the handler's route, which the dispatcher has found."""
        self.header = header
        self.body = body
        self.route = route

    def limit(self, quota: Quota) -> None:
        """Apply the quota of the client to this request."""
        self.quota = quota

    def begin_waiting(self, on_abandoned: Callable[[Request], None]) -> None:
        """Let the request wait for an event; call `on_abandoned` if the client closes its side meanwhile."""
        self.on_abandoned = on_abandoned

    def end_waiting(self) -> None:
        """Continue the request after it has waited: the end of the client's side does not end it."""
        self.on_abandoned = None

    def call_if_lost(self, on_lost: Callable[[Request], None]) -> None:
        """Call `on_lost` if the connection ends before the response."""
        self.on_lost = on_lost

    def release_frame(self, *, keeps_message: bool = False) -> None:
        """Release the memory of the frame, because the handler has read all that it needs.

        `keeps_message`: the decoded message replaces it, and counts as memory of the request until the
        response. Otherwise the request counts no memory, as when it is parked.
        """
        self.frame = self.body = _NO_BODY
        self.connection.release_frame(self, keeps_message=keeps_message)

    def park(self) -> None:
        """Release the frame of a request that waits for an event, and handle further requests.

        A Produce after a parked Produce is handled in the meantime; the responses keep their order.
        """
        self.frame = self.body = _NO_BODY
        self.connection.park(self)

    def begin_remote_time(self) -> None:
        """Record that from now on the request waits for an event: its remote time, for the metrics."""
        self.connection.times.begin_remote_time(self)

    def end_queue_time(self) -> None:
        """Record that the request has got a slot of the request channel, after it has waited for one."""
        self.connection.times.end_queue_time(self)

    def recorded_waits(self) -> RequestWaits:
        """Return the waits of the request, to which the caller adds one."""
        if self.waits is None:
            self.waits = RequestWaits()
        return self.waits

    def throttle(self, throttle_time_ms: int) -> None:
        """Handle no later request of the connection for `throttle_time_ms`, because of a quota."""
        if self.route is not None:
            self.route.metrics.add_throttle_time(throttle_time_ms)
        self.connection.throttle.mute(throttle_time_ms)

    def respond(self, response: Response) -> None:
        """Send the response, as whole frames; None for a request without a response (acks=0).

        The parts are sent in order and must not change afterwards. Has no effect if the client has
        disconnected.
        """
        # The callbacks and the request refer to each other.
        self.on_abandoned = self.on_lost = None
        self.connection.respond(self, response)

    def fail(self, error: BaseException) -> None:
        """Send an error response: the code of a KafkaError, else UNKNOWN_SERVER_ERROR, which is logged.

        For handlers that fail after they have returned to the dispatcher.
        """
        assert self.route is not None, "a request can fail only after it was dispatched"
        self.route.fail(self, error)

    def close(self, reason: str) -> None:
        """Close the connection without a response; `reason` is logged with the client's address."""
        self.on_abandoned = self.on_lost = None
        self.connection.reject(self, reason)
