"""The requests of one connection that have no response yet, in the order in which they were sent.

A broker responds to the requests of one connection in order, so the next response belongs to the oldest
request in flight. Another request may be sent if the newest one has left the send buffer and the window is
not full. A broker that reads slowly therefore stops the client early, and memory for requests stays bounded.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

from tidelog.base.dataclass import dataclass

ContextT = TypeVar("ContextT")


@dataclass(slots=True)
class InFlightRequest(Generic[ContextT]):
    """One request in flight; `context` is a value of the owner for the response."""

    correlation_id: int
    api_key: int
    api_version: int
    sent_ms: int
    deadline_ms: int
    context: ContextT
    send_completed: bool = True

    def on_send_paused(self) -> None:
        """Note that a part of the request is still in the send buffer."""
        self.send_completed = False

    def on_sent(self) -> None:
        """Note that the whole request has left the send buffer."""
        self.send_completed = True


class InFlightRequests(Generic[ContextT]):
    """The in-flight deque of one connection.

    Invariant: correlation ids increase from oldest to newest.
    """

    __slots__ = ("_requests",)

    def __init__(self) -> None:
        self._requests: deque[InFlightRequest[ContextT]] = deque()

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, request: InFlightRequest[ContextT]) -> None:
        """Append a request that was just sent."""
        assert not self._requests or self._requests[-1].correlation_id < request.correlation_id
        self._requests.append(request)

    @property
    def oldest(self) -> InFlightRequest[ContextT] | None:
        """The request to which the next response belongs."""
        return self._requests[0] if self._requests else None

    @property
    def newest(self) -> InFlightRequest[ContextT] | None:
        """The request that was sent last."""
        return self._requests[-1] if self._requests else None

    def complete_next(self, correlation_id: int) -> InFlightRequest[ContextT] | None:
        """Remove and return the oldest request; None if it has another correlation id."""
        if not self._requests or self._requests[0].correlation_id != correlation_id:
            return None
        return self._requests.popleft()

    def can_send_more(self, max_in_flight: int) -> bool:
        """Return whether one more may be sent: none is in flight, or the newest is sent and there is room."""
        requests = self._requests
        return not requests or (requests[-1].send_completed and len(requests) < max_in_flight)

    def next_deadline_ms(self) -> int | None:
        """Return the earliest deadline; None if no request is in flight."""
        return min((request.deadline_ms for request in self._requests), default=None)

    def first_timed_out(self, now_ms: int) -> InFlightRequest[ContextT] | None:
        """Return the oldest request whose deadline has passed."""
        return next((request for request in self._requests if request.deadline_ms <= now_ms), None)

    def clear(self) -> list[InFlightRequest[ContextT]]:
        """Remove and return all requests, oldest first, because the connection is closed."""
        requests = list(self._requests)
        self._requests.clear()
        return requests
