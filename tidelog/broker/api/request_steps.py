"""Runs the steps of a request in slices. They are cancelled if the client disconnects."""

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
) -> None:
    """Run `steps`, whose time counts for the client's quota, and call one of the callbacks at their end."""
    if request.quota is not None:
        steps = request.quota.measured(steps)
    work = slices.start(steps, on_completed, on_failed, is_request=True)
    if work is not None:
        request.call_if_lost(lambda _: work.cancel())


def run_raw_steps(
    slices: Slices, request: Request, steps: Steps[None], on_failed: Callable[[Exception], None] | None = None
) -> None:
    """Run the steps of a raw handler, which respond to the request themselves.

    An error is passed to `on_failed`. By default it results in an error response, or in the end of the
    connection if the request is malformed.
    """

    def fail(error: Exception) -> None:
        if isinstance(error, DecodeError):
            request.close(str(error))
        else:
            request.fail(error)

    start_steps(slices, request, steps, lambda _: None, on_failed or fail)
