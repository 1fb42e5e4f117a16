"""Forwards clients' requests that only the active controller can handle.

A client may send such a request to any broker. The broker sends it to the controller in an Envelope, with the
principal and the address of the client. It sends the bytes of the controller's response to the client
unchanged. If this node is the active controller, the Envelope does not leave the process.

    no controller before the timeout    the API's own error response, REQUEST_TIMED_OUT
    inner version is not supported      the client's connection is closed
    other errors of the Envelope        UNKNOWN_SERVER_ERROR, because the client did not cause them

One task forwards each request and sends its one response. If the controller changes, the task sends the
request to the new controller.

Bounds: one request per connection; `ControllerChannel` bounds the requests in flight.
Source: KIP-590; ForwardingManager of Apache Kafka 4.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import fields, replace
from ipaddress import ip_address
from typing import Any, Final, TypeVar, cast

from tidelog.base.clock import Clock
from tidelog.broker.channels.controller_channel import ControllerChannel
from tidelog.broker.network.request import Quota, Request
from tidelog.broker.network.request_channel import RequestChannel
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.scheduling.slices import Slices
from tidelog.protocol.codec import decode_in_steps
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.framing import SIZE_BYTES, encode_request_in_steps, read_response_header
from tidelog.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from tidelog.protocol.principal_data import encode_principal
from tidelog.protocol.registry import APIS, FORWARDABLE, Api, ApiKey, response_type
from tidelog.protocol.schema import ApiMessage
from tidelog.protocol.steps import copied

logger = logging.getLogger(__name__)

ResponseT = TypeVar("ResponseT", bound=ApiMessage)

_THROTTLE_TIME_BYTES: Final = 4
_CHANGE_PARTITIONS: Final = frozenset({ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.DELETE_TOPICS})


class Forwarder:
    """Forwards requests to the active controller; `timeout_ms` is request.timeout.ms."""

    def __init__(
        self,
        channel: ControllerChannel,
        tasks: RequestChannel,
        slices: Slices,
        clock: Clock,
        timeout_ms: int,
        wait_for_partitions: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Forward requests over `channel`.

        `wait_for_partitions` waits until this node has created and deleted the partitions that the metadata
        requires.
        """
        self._channel = channel
        self._tasks = tasks
        self._slices = slices
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._wait_for_partitions = wait_for_partitions

    def handle(self, request: Request) -> None:
        """Send the client the active controller's response to its request; a raw handler."""
        copying = self._slices.start(
            copied(request.frame), lambda frame: self._forward(request, frame), request.fail
        )
        if copying is not None:
            request.call_if_lost(lambda _: copying.cancel())

    def _forward(self, request: Request, frame: bytes) -> None:
        envelope = _envelope(frame, request)
        changes_partitions = request.header.api_key in _CHANGE_PARTITIONS

        def on_done(ended: asyncio.Future[EnvelopeResponse]) -> None:
            if ended.cancelled():
                request.close("the node is stopping")
            elif (error := ended.exception()) is not None:
                request.fail(error)
            else:
                _respond(request, ended.result())

        work = self._send_and_wait(envelope) if changes_partitions else self._send(envelope)
        self._tasks.run(work, on_done, uses_slot=False)

    async def forward(
        self, context: RequestContext, message: ApiMessage, response: type[ResponseT]
    ) -> ResponseT:
        """Return the active controller's response to `message`, sent on behalf of the client of `context`.

        Errors: KafkaError REQUEST_TIMED_OUT, UNKNOWN_SERVER_ERROR.
        """
        complete = self._slices.complete
        key, version, correlation_id, client_id = context.header
        encoding = encode_request_in_steps(key, version, correlation_id, client_id, message)
        frame = bytes(memoryview(await complete(encoding))[SIZE_BYTES:])
        result = await self._send(_envelope(frame, context))
        if result.error_code or result.response_data is None:
            raise _failure(key, result)
        data = memoryview(result.response_data)
        try:
            _, position = read_response_header(data, key, version)
            return await complete(decode_in_steps(response, data[position:], version))
        except DecodeError as error:
            text = f"the controller's response to {APIS[key].name} cannot be decoded: {error}"
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text) from error

    def supported_apis(self, apis: Iterable[Api]) -> list[Api]:
        """Return `apis` with the versions that this broker can serve.

        An API that is forwarded is limited to the versions of the active controller, if they are known.
        """
        versions = self._channel.versions
        if versions is None:
            return list(apis)
        supported = []
        for api in apis:
            if api.key not in FORWARDABLE:
                supported.append(api)
                continue
            offered = versions.offered_range(api.key)
            if offered is None:
                continue
            lowest, highest = max(api.lowest, offered[0]), min(api.highest, offered[1])
            if lowest <= highest:
                supported.append(replace(api, lowest=lowest, highest=highest))
        return supported

    def highest_version(self, key: ApiKey) -> int:
        """Return the highest version of a forwarded API that the active controller serves, if it is known."""
        offered = None if self._channel.versions is None else self._channel.versions.offered_range(key)
        return APIS[key].highest if offered is None else min(APIS[key].highest, offered[1])

    async def _send_and_wait(self, envelope: EnvelopeRequest) -> EnvelopeResponse:
        """Return the response when this node has created and deleted the partitions in its metadata."""
        result = await self._send(envelope)
        if self._wait_for_partitions is not None:
            try:
                async with asyncio.timeout(self._timeout_ms / 1000):
                    await self._wait_for_partitions()
            except TimeoutError:
                text = "Partitions were not created or deleted within %d ms; responding anyway"
                logger.warning(text, self._timeout_ms)
        return result

    async def _send(self, envelope: EnvelopeRequest) -> EnvelopeResponse:
        deadline = self._clock.monotonic_ms() + self._timeout_ms
        return await self._channel.request(envelope, EnvelopeResponse, deadline=deadline)


def _respond(request: Request, result: EnvelopeResponse) -> None:
    """Send the client the controller's response; the head of the file lists the errors of an Envelope."""
    data = result.response_data
    if result.error_code == ErrorCode.UNSUPPORTED_VERSION:
        name, version = APIS[request.header.api_key].name, request.header.api_version
        request.close(f"the controller does not support version {version} of {name}")
    elif result.error_code or data is None:
        request.fail(_failure(request.header.api_key, result))
    else:
        if request.quota is not None:
            data = _with_throttle_time(request, request.quota, data)
        request.respond(len(data).to_bytes(SIZE_BYTES, "big") + data)


def _with_throttle_time(request: Request, quota: Quota, data: bytes) -> bytes:
    """Return the response with the throttle time of the controller or of this broker, if that is longer.

    The throttle time is the first field of every response that has one.
    """
    key, version, _, _ = request.header
    first = fields(cast(Any, response_type(key)))[0]
    if first.name != "throttle_time_ms":
        quota.throttle(request)
        return data
    _, start = read_response_header(memoryview(data), key, version)
    end = start + _THROTTLE_TIME_BYTES
    throttle_time_ms = quota.throttle(request, max(0, int.from_bytes(data[start:end], "big", signed=True)))
    return data[:start] + throttle_time_ms.to_bytes(_THROTTLE_TIME_BYTES, "big") + data[end:]


def _failure(api_key: int, result: EnvelopeResponse) -> KafkaError:
    """Log an error of the Envelope and return the error for the client."""
    name = APIS[api_key].name
    logger.warning("Cannot forward %s: the controller returned error %d", name, result.error_code)
    text = "the request could not be forwarded to the controller"
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text)


def _envelope(frame: bytes, request: Request | RequestContext) -> EnvelopeRequest:
    """Return `frame` with the principal and the address of the client that has sent it."""
    host = request.peer.rpartition(":")[0].strip("[]").partition("%")[0]
    return EnvelopeRequest(
        request_data=frame,
        request_principal=encode_principal(
            request.principal, is_token_authenticated=request.client.is_token_authenticated
        ),
        client_host_address=ip_address(host).packed,
    )
