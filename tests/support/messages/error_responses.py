"""Error responses without steps."""

from __future__ import annotations

from tidelog.broker.api.error_responses import error_response_in_steps
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.schema import ApiMessage
from tidelog.protocol.steps import run_steps


def error_response_of(request: ApiMessage, version: int, code: ErrorCode, message: str) -> ApiMessage | None:
    """Return the response with `code` for everything in `request`; None if there is no such response."""
    return run_steps(error_response_in_steps(request, version, code, message))
