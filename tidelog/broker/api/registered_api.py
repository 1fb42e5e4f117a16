"""One API that a dispatcher serves: its versions, its handlers and its metrics.

`tidelog.broker.api.dispatch` describes the kinds of handlers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

from tidelog.base.dataclass import dataclass
from tidelog.broker.network.request import Request
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.network.request_metrics import ApiMetrics
from tidelog.protocol.codec import decode_in_steps
from tidelog.protocol.registry import Api, request_type
from tidelog.protocol.schema import ApiMessage
from tidelog.protocol.steps import Steps

RequestT = TypeVar("RequestT", bound=ApiMessage)
Response: TypeAlias = ApiMessage | Steps[ApiMessage]
HandlerResult: TypeAlias = ApiMessage | Awaitable[Response] | Steps[ApiMessage | Awaitable[Response]]
TypedHandler: TypeAlias = Callable[[RequestContext, RequestT], HandlerResult]
RawHandler: TypeAlias = Callable[[Request], None]
DirectHandler: TypeAlias = Callable[[Request], bool]


@dataclass(slots=True)
class RegisteredApi:
    """One registered API; versions outside `lowest` to `highest` are rejected."""

    api: Api
    lowest: int
    highest: int
    metrics: ApiMetrics
    on_failed: Callable[[Request, RegisteredApi, ApiMessage | None, BaseException], None]
    raw: RawHandler | None = None
    typed: TypedHandler[Any] | None = None
    direct: DirectHandler | None = None
    uses_slot: bool = True
    is_cancellable: bool = False
    may_wait: bool = True

    def fail(self, request: Request, error: BaseException) -> None:
        """Respond with an error; see `Request.fail`."""
        self.on_failed(request, self, None, error)


def body_in_steps(request: Request, entry: RegisteredApi) -> Steps[ApiMessage]:
    """Return the decoded body of a request of the API `entry`. Errors: DecodeError."""
    return decode_in_steps(request_type(entry.api.key), request.body, request.header.api_version)
