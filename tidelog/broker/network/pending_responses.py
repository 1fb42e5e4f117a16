"""The responses of parked requests and of requests that follow them; they are sent in request order.

Bounds: `PENDING_RESPONSES_MAX` requests, without their frames.
"""

from __future__ import annotations

from typing import Final

from tidelog.broker.network.request import Request, Response

PENDING_RESPONSES_MAX: Final = 64


class _Missing:
    """Marks a request that has no response yet, because None is a valid response."""


_MISSING: Final = _Missing()


class PendingResponses:
    """Requests in the order of their arrival, each with its response as soon as it is available."""

    __slots__ = ("_responses", "count")

    def __init__(self) -> None:
        self._responses: dict[Request, tuple[Response, int] | _Missing] = {}
        """The response of each request, and since when it has been available."""
        self.count = 0
        """The number of requests whose response has not been sent."""

    def is_pending(self, request: Request) -> bool:
        """Return whether `request` is parked here and has no response yet."""
        return self._responses.get(request) is _MISSING

    @property
    def is_full(self) -> bool:
        """Whether no further request may be parked."""
        return self.count >= PENDING_RESPONSES_MAX

    def add(self, request: Request) -> None:
        """Park `request` behind all others."""
        self._responses[request] = _MISSING
        self.count += 1

    def respond(self, request: Request, response: Response, now_ns: int) -> list[Response]:
        """Store the response of `request`; return all responses that may be sent now, in request order.

        A request that is not parked is added behind all others. The wait of a response for those before it
        is counted in the metrics of its API.
        """
        responses = self._responses
        responses[request] = (response, now_ns)
        ready: list[Response] = []
        while responses:
            oldest = next(iter(responses))
            first = responses[oldest]
            if isinstance(first, _Missing):
                break
            ready.append(first[0])
            if oldest.route is not None:
                oldest.route.metrics.add_response_queue_time(now_ns - first[1])
            del responses[oldest]
        self.count = len(responses)
        return ready

    def clear(self) -> list[Request]:
        """Remove all requests; return those that had no response, in their order."""
        pending = [request for request in self._responses if self.is_pending(request)]
        self._responses.clear()
        self.count = 0
        return pending
