"""One request that a connection has received and that has no response yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from tidelog.broker.network.request_metrics import ApiMetrics
from tidelog.protocol.framing import RequestHeader
from tidelog.storage.segment.file_slice import FileSlice

# The parts of a response; the bytes of all parts together are whole frames, sizes included.
ResponsePart: TypeAlias = bytes | bytearray | memoryview | FileSlice
Response: TypeAlias = bytes | Sequence[ResponsePart] | None

_NO_HEADER = RequestHeader(-1, -1, -1, None)
_NO_BODY = memoryview(b"")


class Route(Protocol):
    """The handler of an API, as the dispatcher has chosen it for a request."""

    metrics: ApiMetrics

    def fail(self, request: Request, error: BaseException) -> None:
        """Send the error response of this API for `error`."""
        ...


@dataclass(slots=True)
class ClientInformation:
    """Name and version of the client's software (KIP-511); empty before ApiVersions 3 or later."""

    software_name: str = ""
    software_version: str = ""


class RequestConnection(Protocol):
    """The connection of a request, as far as its handlers use it; implemented by Connection."""

    address: str
    peer: str
    listener: str
    principal: str
    client: ClientInformation

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

    def reject(self, request: Request, reason: str) -> None:
        """Close the connection; see Request.close."""
        ...


class Request:
    """A frame and the state of its processing.

    `frame` is the whole frame without its size; the dispatcher fills in `header` and `body`. Both
    views are writable and stay valid until `respond`, `release_frame`, `park` or `close`, not a moment
    longer: the memory is then used for the next request. `received_ms` is wall time, `started_ns` monotonic.

    Both callbacks are optional. `on_abandoned` is set while a request only waits for an event or a timeout:
    it is called when the client closes its side before the response. `on_lost` is set while a handler works
    on the request for long: it is called when the whole connection has ended.

    Exactly one of `respond`, `fail` and `close` must be called, at once or later, from the event loop.
    """

    __slots__ = (
        "__weakref__",
        "body",
        "connection",
        "frame",
        "header",
        "on_abandoned",
        "on_lost",
        "received_ms",
        "route",
        "started_ns",
        "throttle_time_ms",
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
        self.throttle_time_ms = 0
        self.route: Route | None = None
        self.on_abandoned: Callable[[Request], None] | None = None
        self.on_lost: Callable[[Request], None] | None = None

    @property
    def peer(self) -> str:
        """The address of the client, host:port."""
        return self.connection.peer

    @property
    def listener(self) -> str:
        """The name of the listener that received the request."""
        return self.connection.listener

    @property
    def principal(self) -> str:
        """The authenticated principal, for example User:ANONYMOUS."""
        return self.connection.principal

    @property
    def is_open(self) -> bool:
        """Whether the request has no response yet and can still get one."""
        return self.connection.can_respond_to(self)

    def release_frame(self, *, keeps_message: bool = False) -> None:
        """Release the memory of the frame; everything that is still needed has been read from it.

        `keeps_message`: a decoded message replaces it, and counts as memory of the request until the
        response. Otherwise nothing counts, as when the request is parked.
        """
        self.frame = self.body = _NO_BODY
        self.connection.release_frame(self, keeps_message=keeps_message)

    def park(self) -> None:
        """Let the request wait for an event, and release its frame.

        A Produce after a parked Produce is handled meanwhile; the responses keep their order.
        """
        self.frame = self.body = _NO_BODY
        self.connection.park(self)

    def respond(self, response: Response) -> None:
        """Send the response, as whole frames; None for a request without a response (acks=0).

        The parts are sent in their order and must not change afterwards. Has no effect if the
        client has disconnected.
        """
        # The callbacks refer to the work of the request, and it to the request.
        self.on_abandoned = self.on_lost = None
        self.connection.respond(self, response)

    def fail(self, error: BaseException) -> None:
        """Send an error response: the code of a KafkaError, else UNKNOWN_SERVER_ERROR, which is logged.

        For handlers that fail later, when they can no longer raise to the dispatcher.
        """
        assert self.route is not None, "a request fails after it was dispatched"
        self.route.fail(self, error)

    def close(self, reason: str) -> None:
        """Close the connection without a response; `reason` is logged with the client's address."""
        self.on_abandoned = self.on_lost = None
        self.connection.reject(self, reason)
