"""From a request's api key and version to the handler, and from its result to an answer.

    unknown api key, version not supported   connection closed (ApiVersions: answered in version 0)
    body cannot be decoded                   connection closed
    handler raises KafkaError                error response with its code
    handler raises anything else             error response UNKNOWN_SERVER_ERROR, traceback logged
    no error response can be built           connection closed

Two kinds of handlers. A *typed* one takes a decoded message and returns the response, a coroutine
that does, or a future. A *raw* one takes the Request and answers it when it likes.
Coroutines run as tasks in the request channel, which bounds them; see `Dispatcher.register`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar, cast

from broker.clock import Clock
from broker.error_responses import error_response_of
from broker.network.request import Request
from broker.network.request_channel import RequestChannel
from broker.request_context import RequestContext
from broker.request_metrics import ApiMetrics, RequestMetrics
from protocol.codec import decode_prefix
from protocol.errors import DecodeError, ErrorCode, KafkaError
from protocol.framing import encode_response, read_request_header
from protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from protocol.registry import APIS, Api, ApiKey, request_type
from protocol.schema import ApiMessage

__all__ = ["Dispatcher", "ErrorResponse", "RawHandler", "RequestContext", "TypedHandler"]

logger = logging.getLogger(__name__)

RequestT = TypeVar("RequestT", bound=ApiMessage)
TypedHandler: TypeAlias = Callable[[RequestContext, RequestT], ApiMessage | Awaitable[ApiMessage]]
RawHandler: TypeAlias = Callable[[Request], None]
# (request message, api version, code, text for people) -> response, or None if there is none to give
ErrorResponse: TypeAlias = Callable[[ApiMessage, int, ErrorCode, str], ApiMessage | None]


@dataclass(slots=True)
class _Entry:
    """One API as it is registered; versions outside lowest to highest are refused."""

    api: Api
    lowest: int
    highest: int
    metrics: ApiMetrics
    error_response: ErrorResponse
    raw: RawHandler | None = None
    typed: TypedHandler[Any] | None = None
    parks: bool = False

    def fail(self, request: Request, error: BaseException) -> None:
        """What `Request.fail` comes to."""
        _failed(request, self, None, error)


class Dispatcher:
    """The handlers of one kind of listener; `dispatch` is what a listener is bound with."""

    def __init__(self, channel: RequestChannel, metrics: RequestMetrics, clock: Clock) -> None:
        self._channel = channel
        self._metrics = metrics
        self._clock = clock
        self._entries: dict[int, _Entry] = {}

    def register(
        self,
        key: ApiKey,
        handler: TypedHandler[Any],
        *,
        parks: bool = False,
        error_response: ErrorResponse = error_response_of,
    ) -> None:
        """Have `handler` answer the API `key`.

        A coroutine takes one of queued.max.requests places while it runs. A handler that waits for
        other clients or for time to pass must not do that: it either is a plain function that
        returns a future, or says `parks=True`.
        """
        entry = self._add(key, error_response)
        entry.typed, entry.parks = handler, parks

    def register_raw(
        self, key: ApiKey, handler: RawHandler, *, error_response: ErrorResponse = error_response_of
    ) -> None:
        """Have `handler` answer requests of the API `key` itself; it never waits for a place."""
        self._add(key, error_response).raw = handler

    def apis(self) -> list[Api]:
        """What is registered, by key: the content of an ApiVersions answer."""
        return [self._entries[key].api for key in sorted(self._entries)]

    def dispatch(self, request: Request) -> None:
        """Have a request answered. Never raises."""
        try:
            header, position = read_request_header(request.frame)
        except DecodeError as error:
            request.close(str(error))
            return
        request.header = header
        key, version, _, _ = header
        entry = self._entries.get(key)
        if entry is None or not entry.lowest <= version <= entry.highest:
            _refuse(request, entry)
            return
        request.body = request.frame[position:]
        request.route = entry
        entry.metrics.requests[version] += 1
        if entry.raw is None:
            self._dispatch_typed(request, entry)
            return
        try:
            entry.raw(request)
        except DecodeError as error:
            request.close(_malformed(request, entry, error))
        except Exception as error:
            _failed(request, entry, None, error)

    async def call(self, context: RequestContext, message: ApiMessage) -> ApiMessage:
        """The answer of a typed handler to a message that no connection has brought here.

        `context.header` says in which version. Errors: KafkaError UNSUPPORTED_VERSION when it is not
        served, NOT_CONTROLLER when it must be asked elsewhere; other errors are in the answer.
        """
        key, version, _, _ = context.header
        entry = self._entries.get(key)
        if entry is None or entry.typed is None or not entry.lowest <= version <= entry.highest:
            text = f"{APIS[key].name} version {version} is not served here"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
        try:
            result = entry.typed(context, message)
            return result if isinstance(result, ApiMessage) else await result
        except Exception as error:
            code, text = _code_of(error, entry, context.peer)
            if code is ErrorCode.NOT_CONTROLLER:
                raise
            entry.metrics.errors[code] += 1
            response = entry.error_response(message, version, code, text)
            if response is None:
                raise
            return response

    # ---- typed handlers

    def _dispatch_typed(self, request: Request, entry: _Entry) -> None:
        try:
            message = _body(request, entry)
        except DecodeError as error:
            request.close(_malformed(request, entry, error))
            return
        except Exception:
            logger.exception("cannot decode %s from %s", entry.api.name, request.peer)
            request.close(f"{entry.api.name} request cannot be decoded")
            return
        if entry.parks:
            self._call(request, entry, message)
        else:
            self._channel.enter(request, lambda: self._call(request, entry, message))

    def _call(self, request: Request, entry: _Entry, message: ApiMessage) -> None:
        assert entry.typed is not None
        connection = request.connection
        context = RequestContext(
            request.header,
            connection.listener,
            connection.peer,
            connection.principal,
            self._clock.wall_ms(),
            connection.client,
        )
        try:
            result = entry.typed(context, message)
        except Exception as error:
            _failed(request, entry, message, error)
            return
        if isinstance(result, ApiMessage):
            _answer(request, entry, message, result)
            return

        def done(ended: asyncio.Future[Any]) -> None:
            _finished(request, entry, message, ended)

        if isinstance(result, asyncio.Future):
            result.add_done_callback(done)
        elif isinstance(result, Coroutine):
            self._channel.run(result, done, takes_place=not entry.parks)
        else:
            _failed(request, entry, message, TypeError(f"{entry.api.name} handler returned {result!r}"))

    def _add(self, key: ApiKey, error_response: ErrorResponse) -> _Entry:
        assert key not in self._entries, f"{key.name} has a handler already"
        api = APIS[key]
        # Produce advertises versions for which no messages exist any more.
        lowest = max(api.lowest, request_type(key).valid_versions.lowest)
        metrics = self._metrics.of(api.name, api.highest)
        entry = self._entries[key] = _Entry(api, lowest, api.highest, metrics, error_response)
        return entry


def _finished(request: Request, entry: _Entry, message: ApiMessage, ended: asyncio.Future[Any]) -> None:
    if ended.cancelled():
        request.close(f"{entry.api.name} was cancelled")
        return
    error = ended.exception()
    if error is not None:
        _failed(request, entry, message, error)
    else:
        _answer(request, entry, message, ended.result())


def _answer(request: Request, entry: _Entry, message: ApiMessage, response: ApiMessage) -> None:
    try:
        answer = _encode(request, response)
    except Exception as error:
        _failed(request, entry, message, error)
        return
    code: int = getattr(response, "error_code", 0)
    if code:
        entry.metrics.errors[code] += 1
    request.respond(answer)


def _refuse(request: Request, entry: _Entry | None) -> None:
    header = request.header
    if entry is None:
        request.close(f"{APIS[header.api_key].name} is not served on listener {request.listener}")
    elif header.api_key == ApiKey.API_VERSIONS:
        request.route = entry
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
            f"{entry.api.name} version {header.api_version} is not supported, "
            f"{entry.lowest} to {entry.highest} are"
        )


def _failed(request: Request, entry: _Entry, message: ApiMessage | None, error: BaseException) -> None:
    """Turn what a handler raised into an error response, or into the end of the connection."""
    code, text = _code_of(error, entry, request.peer)
    entry.metrics.errors[code] += 1
    if not request.is_open:
        return
    version = request.header.api_version
    try:
        asked = message
        if asked is None:
            asked = _body(request, entry)
        response = entry.error_response(asked, version, code, text)
        answer = None if response is None else _encode(request, response)
    except Exception:
        logger.exception("no error response for %s version %d", entry.api.name, version)
        answer = None
    if answer is None:
        request.close(f"{entry.api.name} failed with {code.name} and has no error response")
    else:
        request.respond(answer)


def _code_of(error: BaseException, entry: _Entry, peer: str) -> tuple[ErrorCode, str]:
    """What the asker is told of an error; one that is our own fault is logged."""
    if isinstance(error, KafkaError):
        return error.code, str(error)
    logger.error("%s from %s failed", entry.api.name, peer, exc_info=error)
    return ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR.text


def _body(request: Request, entry: _Entry) -> ApiMessage:
    """The decoded body; DecodeError. Bytes behind it are passed over as in Kafka: librdkafka sends some."""
    version = request.header.api_version
    return decode_prefix(request_type(entry.api.key), request.body, version, 0)[0]


def _encode(request: Request, response: ApiMessage) -> bytes:
    """The frame of a response, with the throttle time that quotas have set on the request."""
    if request.throttle_time_ms and hasattr(response, "throttle_time_ms"):
        response = cast(ApiMessage, replace(cast(Any, response), throttle_time_ms=request.throttle_time_ms))
    header = request.header
    return encode_response(header.api_key, header.api_version, header.correlation_id, response)


def _malformed(request: Request, entry: _Entry, error: DecodeError) -> str:
    return f"malformed {entry.api.name} request version {request.header.api_version}: {error}"
