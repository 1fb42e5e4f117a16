"""The port through which parts of a broker send requests to the active controller."""

from __future__ import annotations

from typing import Protocol, TypeVar

from tidelog.protocol.schema import ApiMessage

ResponseT = TypeVar("ResponseT", bound=ApiMessage)


class ControllerRequests(Protocol):
    """Sends requests to the active controller; `ControllerChannel` implements it."""

    async def request(self, message: ApiMessage, response: type[ResponseT], *, deadline: int) -> ResponseT:
        """Return the response. Raise KafkaError if there is none at `deadline`, in monotonic ms."""
        ...
