"""Runs the steps of a request in slices. They are cancelled if the client disconnects.

The steps of most requests wait if there are many other long requests. Those of Produce and of the requests
that nodes send to each other do not: these APIs are registered with `may_wait=False`. After a wait behind the
requests of a thousand clients, a follower would have left the ISR, and a Produce would have timed out. Their
memory is bounded by their requests and by fetch sessions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tidelog.broker.network.request import Request
from tidelog.broker.scheduling.slices import Slices
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.steps import Steps

T = TypeVar("T")


def start_steps(
    slices: Slices,
    request: Request,
    steps: Steps[T],
    on_completed: Callable[[T], None],
    on_failed: Callable[[Exception], None],
    *,
    may_wait: bool = True,
) -> None:
    """Run `steps`, whose time counts for the client's quota, and call one of the callbacks at their end.

    `may_wait`: they wait if there are LONG_REQUESTS_MAX other long requests, unless the API never waits.
    """
    if request.quota is not None:
        steps = request.quota.measured(steps)
    route = request.route
    may_wait = may_wait and (route is None or route.may_wait)
    work = slices.start(steps, on_completed, on_failed, is_request=may_wait)
    if work is not None:
        request.call_if_lost(lambda _: work.cancel())


def run_raw_steps(
    slices: Slices,
    request: Request,
    steps: Steps[None],
    on_failed: Callable[[Exception], None] | None = None,
    *,
    may_wait: bool = True,
) -> None:
    """Run the steps of a raw handler, which respond to the request themselves; see `start_steps`.

    An error is passed to `on_failed`. By default it results in an error response, or in the end of the
    connection if the request is malformed.
    """

    def fail(error: Exception) -> None:
        if isinstance(error, DecodeError):
            request.close(str(error))
        else:
            request.fail(error)

    start_steps(slices, request, steps, lambda _: None, on_failed or fail, may_wait=may_wait)
