"""One request that a connection has received and nobody has answered yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from tidelog.protocol.framing import RequestHeader
from tidelog.storage.segment.file_slice import FileSlice

if TYPE_CHECKING:
    from tidelog.broker.network.connection import Connection
    from tidelog.broker.network.request_metrics import ApiMetrics

# What an answer is made of; the bytes of all parts together are whole frames, sizes included.
AnswerPart: TypeAlias = bytes | bytearray | memoryview | FileSlice
Answer: TypeAlias = bytes | Sequence[AnswerPart] | None

_NO_HEADER = RequestHeader(-1, -1, -1, None)
_NO_BODY = memoryview(b"")


class Route(Protocol):
    """Where the dispatcher has sent a request."""

    metrics: ApiMetrics

    def fail(self, request: Request, error: BaseException) -> None:
        """Answer with what `error` means for this API."""
        ...


@dataclass(slots=True)
class ClientInformation:
    """What the peer says it is (KIP-511); empty until it has sent ApiVersions 3 or later."""

    software_name: str = ""
    software_version: str = ""


class Request:
    """A frame and what became of it.

    `frame` is the whole frame without its size; the dispatcher fills in `header` and `body`. Both
    views are writable and stay valid until `respond`, `release_frame`, `park` or `close`, not a moment
    longer: the memory is then used for the next request. `received_ms` is wall time, `started_ns` monotonic.

    `on_abandoned` is set by who only waits, for others or for time: it is called when the peer has closed its
    side before the answer. `on_lost` is set by who works on the request for long: it is called when the whole
    connection has ended. Nobody need set them.

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

    def __init__(self, connection: Connection, frame: memoryview, received_ms: int, started_ns: int) -> None:
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
        """The other side as host:port."""
        return self.connection.peer

    @property
    def listener(self) -> str:
        """The name of the listener the request came in by."""
        return self.connection.listener

    @property
    def principal(self) -> str:
        """Who asks, e.g. User:ANONYMOUS."""
        return self.connection.principal

    @property
    def is_open(self) -> bool:
        """Whether an answer is still owed and can still be given."""
        return self.connection.owes(self)

    def release_frame(self, *, keeps_message: bool = False) -> None:
        """Give the memory of the frame back: everything that is still needed has been read from it.

        `keeps_message`: a decoded message takes its place, and counts as memory of the request until the
        response. Otherwise nothing does, as when the request is parked.
        """
        self.frame = self.body = _NO_BODY
        self.connection.frame_released(self, keeps_message=keeps_message)

    def park(self) -> None:
        """The answer has to wait for others, and the frame is needed no more.

        A Produce behind a parked Produce is handled meanwhile; the answers keep their order.
        """
        self.frame = self.body = _NO_BODY
        self.connection.parked(self)

    def respond(self, answer: Answer) -> None:
        """Answer with whole frames, or with None for a request that gets no answer (acks=0).

        The parts are sent in their order and must not change afterwards. Without effect when the
        peer has gone meanwhile.
        """
        self.connection.answered(self, answer)

    def fail(self, error: BaseException) -> None:
        """Answer with an error response: the code of a KafkaError, else UNKNOWN_SERVER_ERROR, logged.

        For handlers that find out later, when they can no longer raise to the dispatcher.
        """
        assert self.route is not None, "a request fails after it was dispatched"
        self.route.fail(self, error)

    def close(self, reason: str) -> None:
        """Refuse to answer and end the connection; `reason` is logged with the peer's address."""
        self.connection.refused(self, reason)
