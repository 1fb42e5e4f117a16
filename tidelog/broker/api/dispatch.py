"""Dispatches requests: from the API key and version to the handler, and from its result to `Responses`.

    unknown API key, version not supported   close the connection (ApiVersions: a response in version 0)
    body cannot be decoded                   close the connection
    handler raises KafkaError                error response with its code
    handler raises any other exception       error response UNKNOWN_SERVER_ERROR, log the traceback
    API has no error response                close the connection

There are two kinds of handlers. A *typed* handler takes a decoded message and returns the response, a
future, a coroutine, or steps that return one of these. The result of a future is the response, or the steps
that return it. A *raw* handler takes the Request and responds to it at any time. Coroutines run as tasks of
the request channel, which bounds them; see `Dispatcher.register`. A typed handler may have a *direct* one,
which serves the frequent form of a request as a raw handler does. It returns False for all other requests,
and the typed handler serves these.

No request delays the others for long: large requests are decoded and large responses are encoded in slices
(`tidelog.broker.scheduling.slices`). Steps run in slices, too. If the client disconnects, they are cancelled
between two steps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Final, Protocol, TypeVar

from tidelog.base.clock import Clock
from tidelog.broker.api.element_release import ElementRelease
from tidelog.broker.api.error_responses import error_response_in_steps, needed_for_error
from tidelog.broker.api.registered_api import (
    DirectHandler,
    HandlerResult,
    RawHandler,
    RegisteredApi,
    Response,
    TypedHandler,
    body_in_steps,
)
from tidelog.broker.api.request_steps import start_steps
from tidelog.broker.api.responses import Responses, with_throttle_time
from tidelog.broker.network.request import Quota, Request
from tidelog.broker.network.request_channel import RequestChannel
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.network.request_metrics import RequestMetrics
from tidelog.broker.quotas.event_loop_time import EventLoopTime
from tidelog.broker.scheduling.slices import Slices
from tidelog.broker.security.authorization.request_guard import RequestGuard
from tidelog.protocol.codec import decode_prefix
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.framing import RequestHeader, encode_response, read_request_header
from tidelog.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from tidelog.protocol.registry import APIS, Api, ApiKey, request_type
from tidelog.protocol.schema import ApiMessage
from tidelog.protocol.steps import Steps

__all__ = ["Dispatcher", "RawHandler", "RequestContext", "TypedHandler"]

ResultT = TypeVar("ResultT")

LARGE_BODY_BYTES: Final = 8 * 1024
"""A longer body is decoded in steps, because decoding it at once may take more than two milliseconds."""


class Quotas(Protocol):
    """The quotas of clients; implemented by RequestQuotas."""

    is_enabled: bool

    def of(self, request: Request) -> Quota:
        """Return the quota of a request that has just arrived."""
        ...

    def throttle_forwarded(
        self, principal: str, header: RequestHeader, elapsed_ns: int, mutation_throttle_time_ms: int
    ) -> int:
        """Record the time of a forwarded request; return the throttle time for its response."""
        ...


class _NoQuotas:
    """Quotas of a dispatcher that throttles no client."""

    is_enabled = False

    def of(self, request: Request) -> Quota:
        raise AssertionError("no client has a quota")

    def throttle_forwarded(
        self, principal: str, header: RequestHeader, elapsed_ns: int, mutation_throttle_time_ms: int
    ) -> int:
        return mutation_throttle_time_ms


_NO_QUOTAS: Final = _NoQuotas()


class Dispatcher:
    """The handlers of one kind of listener; a listener is bound with `dispatch`."""

    def __init__(
        self,
        channel: RequestChannel,
        metrics: RequestMetrics,
        clock: Clock,
        slices: Slices,
        *,
        quotas: Quotas | None,
        guard: RequestGuard | None,
    ) -> None:
        """`quotas` throttles clients; None throttles no client.

        `guard` checks whether clients may send requests to typed handlers; None allows all requests.
        """
        self._channel = channel
        self._quotas: Quotas = _NO_QUOTAS if quotas is None else quotas
        self._metrics = metrics
        self.clock = clock
        self.slices = slices
        self._element_release = ElementRelease(slices)
        self._responses = Responses(slices, self._element_release, clock)
        self._guard = guard
        self._entries: dict[int, RegisteredApi] = {}

    def register(
        self,
        key: ApiKey,
        handler: TypedHandler[Any],
        *,
        direct: DirectHandler | None = None,
        uses_slot: bool = True,
        is_cancellable: bool = False,
        may_wait: bool = True,
    ) -> None:
        """Register `handler` for the API `key`.

        A coroutine takes one of queued.max.requests slots while it runs. A handler that waits for other
        clients or for a timeout must not take a slot: it is a plain function that returns a future, or it is
        registered with `uses_slot=False`. If the client disconnects, futures are cancelled, and coroutines
        that are registered with `is_cancellable=True`. `direct` takes no slot, and checks by itself what
        clients may do. With `may_wait=False` requests do not wait for other long ones (`request_steps`).
        """
        entry = self._add(key)
        if self._guard is not None:
            handler = self._guard.guard(key, handler)
        entry.typed, entry.direct = handler, direct
        entry.uses_slot, entry.is_cancellable, entry.may_wait = uses_slot, is_cancellable, may_wait

    def register_raw(self, key: ApiKey, handler: RawHandler, *, may_wait: bool = True) -> None:
        """Register a handler that responds to requests of the API `key` itself; it takes no slot."""
        entry = self._add(key)
        entry.raw, entry.may_wait = handler, may_wait

    def apis(self) -> list[Api]:
        """Return the registered APIs by key, for the response to ApiVersions."""
        return [self._entries[key].api for key in sorted(self._entries)]

    def dispatch(self, request: Request) -> None:
        """Pass a request to its handler. Never raise."""
        try:
            header, position = read_request_header(request.frame)
        except DecodeError as error:
            request.close(str(error))
            return
        key, version, _, _ = header
        entry = self._entries.get(key)
        if entry is None or not entry.lowest <= version <= entry.highest:
            _reject(request, header, entry)
            return
        request.on_dispatched(header, request.frame[position:], entry)
        entry.metrics.requests[version] += 1
        if self._quotas.is_enabled:
            request.limit(self._quotas.of(request))
            began_ns = self.clock.monotonic_ns()
        if entry.raw is None:
            if entry.direct is None or not self._serve_directly(request, entry, entry.direct):
                self._dispatch_typed(request, entry)
        else:
            try:
                entry.raw(request)
            except DecodeError as error:
                request.close(_malformed(request, entry, error))
            except Exception as error:
                self._responses.fail(request, entry, None, error)
        if request.quota is not None:
            request.quota.on_handler_return(self.clock.monotonic_ns() - began_ns)

    async def call_forwarded(
        self, context: RequestContext, message: ApiMessage, time: EventLoopTime
    ) -> ApiMessage:
        """Do the same as `call` for a forwarded request; the response has the throttle time of the client.

        `time` is the time of the request until now.
        """
        response = await time.of_coroutine(self.call(context, message, time))
        throttle_time_ms = self._quotas.throttle_forwarded(
            context.principal, context.header, time.elapsed_ns, getattr(response, "throttle_time_ms", 0)
        )
        return with_throttle_time(response, throttle_time_ms)

    async def call(
        self, context: RequestContext, message: ApiMessage, time: EventLoopTime | None = None
    ) -> ApiMessage:
        """Return the response of a typed handler to a message of this process.

        `context.header` has the version. Raise KafkaError UNSUPPORTED_VERSION if it is not served, and
        NOT_CONTROLLER if this node is not the active controller. Other errors are in the response. Steps are
        counted in `time`.
        """
        key, version, _, _ = context.header
        entry = self._entries.get(key)
        if entry is None or entry.typed is None or not entry.lowest <= version <= entry.highest:
            text = f"{APIS[key].name} version {version} is not served by this node"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
        try:
            result = entry.typed(context, message)
            while not isinstance(result, ApiMessage):
                if isinstance(result, Generator):
                    result = await self.slices.complete(result if time is None else time.of_steps(result))
                else:
                    result = await result
            return result
        except Exception as error:
            code, text = self._responses.code_of(error, entry, context.peer)
            if code is ErrorCode.NOT_CONTROLLER:
                raise
            entry.metrics.errors[code] += 1
            response = await self.slices.complete(error_response_in_steps(message, version, code, text))
            if response is None:
                raise
            return response

    # ---- typed handlers

    def _serve_directly(self, request: Request, entry: RegisteredApi, direct: DirectHandler) -> bool:
        """Return whether the direct handler serves the request, or has failed; then it needs no other."""
        try:
            return direct(request)
        except Exception as error:
            self._responses.fail(request, entry, None, error)
            return True

    def _dispatch_typed(self, request: Request, entry: RegisteredApi) -> None:
        if not entry.uses_slot:
            self._decode(request, entry)
        else:
            # Decoded when it has a slot, because messages take more memory than frames.
            self._channel.submit(request, lambda: self._decode(request, entry))

    def _decode(self, request: Request, entry: RegisteredApi) -> None:
        """Decode a request, in steps if it is large, and call its handler."""
        if len(request.body) > LARGE_BODY_BYTES:
            self._run(
                request,
                body_in_steps(request, entry),
                lambda message: self._call_large(request, entry, message),
                lambda error: self._cannot_decode(request, entry, error),
            )
            return
        try:
            message = _body(request, entry)
        except Exception as error:
            self._cannot_decode(request, entry, error)
            return
        self._call(request, entry, message)

    def _cannot_decode(self, request: Request, entry: RegisteredApi, error: Exception) -> None:
        if isinstance(error, DecodeError):
            request.close(_malformed(request, entry, error))
        else:
            self._responses.log_error("Cannot decode %s from %s", entry.api.name, request.peer, error=error)
            request.close(f"{entry.api.name} request cannot be decoded")

    def _call_large(self, request: Request, entry: RegisteredApi, message: ApiMessage) -> None:
        """Pass a decoded message, which may have many elements, to its handler."""
        self._element_release.after_request(request, message)
        self._call(request, entry, message)

    def _call(self, request: Request, entry: RegisteredApi, message: ApiMessage) -> None:
        """Pass a decoded message to its handler."""
        assert entry.typed is not None
        # Messages are copies, so the frame can be released before the response.
        request.release_frame(keeps_message=True)
        connection = request.connection
        context = RequestContext(
            request.header,
            connection.listener,
            connection.peer,
            connection.client.principal,
            self.clock.wall_ms(),
            connection.client,
        )
        try:
            result = entry.typed(context, message)
        except Exception as error:
            self._responses.fail(request, entry, message, error)
            return
        self._on_result(request, entry, message, result)

    def _on_result(
        self, request: Request, entry: RegisteredApi, message: ApiMessage, result: HandlerResult
    ) -> None:
        """Respond with the result of a handler, at once or when it is complete."""
        if isinstance(result, ApiMessage):
            self._responses.send(request, entry, message, result)
        elif isinstance(result, Generator):
            self._run(
                request,
                result,
                lambda response: self._on_result(request, entry, message, response),
                lambda error: self._responses.fail(request, entry, message, error),
            )
        else:
            self._await(request, entry, message, result)

    def _await(
        self, request: Request, entry: RegisteredApi, message: ApiMessage, result: Awaitable[Response]
    ) -> None:
        """Respond when a future or a coroutine is done; keep only what an error response needs until then."""
        error_request = needed_for_error(message)
        if error_request is not message:
            request.release_frame()
        request.begin_remote_time()

        def on_done(ended: asyncio.Future[Any]) -> None:
            if ended.cancelled():
                request.close(f"{entry.api.name} was cancelled")
            elif (failure := ended.exception()) is not None:
                self._responses.fail(request, entry, error_request, failure)
            else:
                self._on_result(request, entry, error_request, ended.result())

        if isinstance(result, asyncio.Future):
            result.add_done_callback(on_done)
            request.begin_waiting(lambda _: _cancel(result))
        elif isinstance(result, Coroutine):
            task = self._channel.run(result, on_done, uses_slot=entry.uses_slot)
            if entry.is_cancellable:
                request.begin_waiting(lambda _: _cancel(task))
        else:
            error = TypeError(f"the handler of {entry.api.name} returned {result!r}")
            self._responses.fail(request, entry, message, error)

    def _run(
        self,
        request: Request,
        steps: Steps[ResultT],
        on_completed: Callable[[ResultT], None],
        on_failed: Callable[[Exception], None],
    ) -> None:
        start_steps(self.slices, request, steps, on_completed, on_failed)

    def _add(self, key: ApiKey) -> RegisteredApi:
        assert key not in self._entries, f"{key.name} already has a handler"
        api = APIS[key]
        # Produce advertises versions 0 to 2, for which no messages are defined any more.
        lowest = max(api.lowest, request_type(key).valid_versions.lowest)
        metrics = self._metrics.of(api.name, api.highest)
        entry = self._entries[key] = RegisteredApi(api, lowest, api.highest, metrics, self._responses.fail)
        return entry


def _cancel(waiting: asyncio.Future[Any]) -> None:
    """Cancel a future whose result can no longer be sent."""
    waiting.cancel()


def _reject(request: Request, header: RequestHeader, entry: RegisteredApi | None) -> None:
    """Reject a request of an API or a version that is not served; `entry` is None for an unknown API."""
    if entry is None:
        request.close(f"{APIS[header.api_key].name} is not served on listener {request.listener}")
    elif header.api_key == ApiKey.API_VERSIONS:
        request.on_dispatched(header, request.frame[:0], entry)
        entry.metrics.errors[ErrorCode.UNSUPPORTED_VERSION] += 1
        response = ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            api_keys=(
                ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=entry.lowest, max_version=entry.highest),
            ),
        )
        request.respond(encode_response(ApiKey.API_VERSIONS, 0, header.correlation_id, response))
    else:
        request.close(
            f"{entry.api.name} version {header.api_version} is not supported; "
            f"supported are {entry.lowest} to {entry.highest}"
        )


def _body(request: Request, entry: RegisteredApi) -> ApiMessage:
    """Return the decoded body. Ignore bytes after it, as Kafka does: librdkafka sends some."""
    version = request.header.api_version
    return decode_prefix(request_type(entry.api.key), request.body, version, 0)[0]


def _malformed(request: Request, entry: RegisteredApi, error: DecodeError) -> str:
    return f"malformed {entry.api.name} request version {request.header.api_version}: {error}"
