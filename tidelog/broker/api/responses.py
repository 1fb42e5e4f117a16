"""Encodes and sends the responses of handlers, and the error responses of those that fail.

response with few elements     encoded at once
response with many elements    encoded in steps, which are cancelled if the client disconnects
KafkaError                     error response with its code
any other exception            error response UNKNOWN_SERVER_ERROR; the traceback is logged
no error response exists       the connection is closed
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, cast

from tidelog.base.clock import Clock
from tidelog.base.log_limit import LogLimit
from tidelog.broker.api.element_release import ElementRelease
from tidelog.broker.api.error_responses import error_response_in_steps
from tidelog.broker.api.registered_api import RegisteredApi, body_in_steps
from tidelog.broker.api.request_steps import start_steps
from tidelog.broker.network.request import Request
from tidelog.broker.scheduling.slices import Slices
from tidelog.protocol.codec import has_more_elements
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.framing import encode_response, encode_response_in_steps
from tidelog.protocol.schema import ApiMessage
from tidelog.protocol.steps import Steps

logger = logging.getLogger(__name__)

MANY_ELEMENTS: Final = 500
"""A response with more elements is encoded in steps."""


class Responses:
    """The responses of one dispatcher; a connection that is closed gets none."""

    def __init__(self, slices: Slices, element_release: ElementRelease, clock: Clock) -> None:
        self._slices = slices
        self._element_release = element_release
        self._log_limit = LogLimit(clock.monotonic_ms)

    def send(self, request: Request, entry: RegisteredApi, message: ApiMessage, response: ApiMessage) -> None:
        """Send the response to `message`; if it cannot be encoded, send an error response."""
        code: int = getattr(response, "error_code", 0)
        if code:
            entry.metrics.errors[code] += 1
        self._encode(request, response, lambda error: self.fail(request, entry, message, error))

    def fail(
        self, request: Request, entry: RegisteredApi, message: ApiMessage | None, error: BaseException
    ) -> None:
        """Send the error response to `message`, or close the connection if the API has none.

        `message` is None if the request was not decoded, as for raw handlers.
        """
        code, text = self.code_of(error, entry, request.peer)
        entry.metrics.errors[code] += 1
        if not request.is_open:
            return

        def close_without_response(fault: Exception | None) -> None:
            if fault is not None:
                name, version = entry.api.name, request.header.api_version
                self.log_error(
                    "Cannot create the error response of %s version %d", name, version, error=fault
                )
            request.close(f"{entry.api.name} failed with {code.name} and has no error response")

        def respond(response: ApiMessage | None) -> None:
            if response is None:
                close_without_response(None)
            else:
                self._encode(request, response, close_without_response)

        steps = _error_response(request, entry, message, code, text)
        start_steps(self._slices, request, steps, respond, close_without_response)

    def code_of(self, error: BaseException, entry: RegisteredApi, peer: str) -> tuple[ErrorCode, str]:
        """Return the code and the text for the client; log an exception that is not a KafkaError."""
        if isinstance(error, KafkaError):
            return error.code, str(error)
        self.log_error("Error while handling %s from %s", entry.api.name, peer, error=error)
        return ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR.text

    def log_error(self, message: str, *arguments: object, error: BaseException) -> None:
        """Log an unexpected exception with its traceback; the number of repeated lines is limited."""
        self._log_limit.log(logger, logging.ERROR, message, *arguments, error=error)

    def _encode(self, request: Request, response: ApiMessage, on_failed: Callable[[Exception], None]) -> None:
        """Respond, with the throttle time if the client exceeds a quota."""
        if not request.is_open:
            return
        key, version, correlation_id, _ = request.header
        if request.quota is not None:
            # The controller sets the throttle time for mutations that a client requests from it directly.
            controller_throttle_time_ms: int = getattr(response, "throttle_time_ms", 0)
            response = with_throttle_time(
                response, request.quota.throttle(request, controller_throttle_time_ms)
            )
        if has_more_elements(response, version, MANY_ELEMENTS):
            steps = encode_response_in_steps(key, version, correlation_id, response)

            def respond(parts: list[bytearray | memoryview]) -> None:
                request.respond(parts)
                self._element_release.after_response(response, version)

            start_steps(self._slices, request, steps, respond, on_failed)
            return
        try:
            frame = encode_response(key, version, correlation_id, response)
        except Exception as error:
            on_failed(error)
            return
        request.respond(frame)


def with_throttle_time(response: ApiMessage, throttle_time_ms: int) -> ApiMessage:
    """Return the response with this throttle time; unchanged if it is 0 or the response has no such field."""
    if not throttle_time_ms or not hasattr(response, "throttle_time_ms"):
        return response
    return cast(ApiMessage, replace(cast(Any, response), throttle_time_ms=throttle_time_ms))


def _error_response(
    request: Request, entry: RegisteredApi, message: ApiMessage | None, code: ErrorCode, text: str
) -> Steps[ApiMessage | None]:
    """Return the error response; decode the request of a raw handler for it."""
    decoded = message
    if decoded is None:
        decoded = yield from body_in_steps(request, entry)
    return (yield from error_response_in_steps(decoded, request.header.api_version, code, text))
