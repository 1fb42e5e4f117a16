"""Requests of clients that only the active controller can answer: passed on to it as they came.

A client may ask any broker. The request travels inside an Envelope with who asked and from where; the
answer's bytes come back and are given to the client as they are. When this node is the active
controller the Envelope does not leave the process.

    no controller in time           the API's own error response, REQUEST_TIMED_OUT
    inner version not served there  the client's connection is closed
    other errors of the Envelope    UNKNOWN_SERVER_ERROR, for they are not the client's fault

Each request is answered once, by the one task that passes it on; a change of controllers makes that
task ask again.

Bounds: one request per connection; `ControllerChannel` bounds how many are on their way.
Source: KIP-590; ForwardingManager of Apache Kafka 4.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from ipaddress import ip_address
from typing import Final, TypeVar

from tidelog.base.clock import Clock
from tidelog.broker.channels.controller_channel import ControllerChannel
from tidelog.broker.network.request import Request
from tidelog.broker.network.request_channel import RequestChannel
from tidelog.broker.network.request_context import RequestContext
from tidelog.protocol.codec import decode_prefix
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.framing import SIZE_BYTES, encode_request, read_response_header
from tidelog.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from tidelog.protocol.principal_data import encode_principal
from tidelog.protocol.registry import APIS, FORWARDABLE, Api, ApiKey
from tidelog.protocol.schema import ApiMessage

logger = logging.getLogger(__name__)

ResponseT = TypeVar("ResponseT", bound=ApiMessage)

_MAKE_PARTITIONS: Final = frozenset({ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.DELETE_TOPICS})


class Forwarder:
    """Passes requests on; `timeout_ms` is request.timeout.ms."""

    def __init__(
        self,
        channel: ControllerChannel,
        tasks: RequestChannel,
        clock: Clock,
        timeout_ms: int,
        partitions_made: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`partitions_made` waits for the partitions that are being made or put aside on this node."""
        self._channel = channel
        self._tasks = tasks
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._partitions_made = partitions_made

    def handle(self, request: Request) -> None:
        """Answer a client's request with what the active controller answers; a raw handler."""
        envelope = _envelope(bytes(request.frame), request.principal, request.peer)
        makes_partitions = request.header.api_key in _MAKE_PARTITIONS

        def done(ended: asyncio.Future[EnvelopeResponse]) -> None:
            if ended.cancelled():
                request.close("the node is stopping")
            elif (error := ended.exception()) is not None:
                request.fail(error)
            else:
                _answer(request, ended.result())

        work = self._ask_and_wait(envelope) if makes_partitions else self._ask(envelope)
        self._tasks.run(work, done, takes_place=False)

    async def forward(
        self, context: RequestContext, message: ApiMessage, response: type[ResponseT]
    ) -> ResponseT:
        """The active controller's answer to `message` in the name of the client of `context`.

        Errors: KafkaError REQUEST_TIMED_OUT, UNKNOWN_SERVER_ERROR.
        """
        key, version, correlation_id, client_id = context.header
        frame = encode_request(key, version, correlation_id, client_id, message)[SIZE_BYTES:]
        answer = await self._ask(_envelope(frame, context.principal, context.peer))
        if answer.error_code or answer.response_data is None:
            raise _failure(key, answer)
        data = memoryview(answer.response_data)
        try:
            _, position = read_response_header(data, key, version)
            return decode_prefix(response, data, version, position)[0]
        except DecodeError as error:
            text = f"the controller's answer to {APIS[key].name} is unreadable: {error}"
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text) from error

    def served(self, apis: Iterable[Api]) -> list[Api]:
        """`apis` as this broker can serve them: what it passes on only as far as the controller knows it."""
        versions = self._channel.versions
        if versions is None:
            return list(apis)
        found = []
        for api in apis:
            if api.key not in FORWARDABLE:
                found.append(api)
                continue
            offered = versions.offered(api.key)
            if offered is None:
                continue
            lowest, highest = max(api.lowest, offered[0]), min(api.highest, offered[1])
            if lowest <= highest:
                found.append(replace(api, lowest=lowest, highest=highest))
        return found

    async def _ask_and_wait(self, envelope: EnvelopeRequest) -> EnvelopeResponse:
        """Answer when what was created can be used on this node, or is gone, as far as it has heard of it."""
        answer = await self._ask(envelope)
        if self._partitions_made is not None:
            try:
                async with asyncio.timeout(self._timeout_ms / 1000):
                    await self._partitions_made()
            except TimeoutError:
                logger.warning("partitions are still being made or deleted after %d ms", self._timeout_ms)
        return answer

    async def _ask(self, envelope: EnvelopeRequest) -> EnvelopeResponse:
        deadline = self._clock.monotonic_ms() + self._timeout_ms
        return await self._channel.request(envelope, EnvelopeResponse, deadline=deadline)


def _answer(request: Request, answer: EnvelopeResponse) -> None:
    data = answer.response_data
    if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
        name, version = APIS[request.header.api_key].name, request.header.api_version
        request.close(f"the controller does not understand this {name} request version {version}")
    elif answer.error_code or data is None:
        request.fail(_failure(request.header.api_key, answer))
    else:
        request.respond(len(data).to_bytes(SIZE_BYTES, "big") + data)


def _failure(api_key: int, answer: EnvelopeResponse) -> KafkaError:
    """What a client hears of an error that is between the brokers."""
    name = APIS[api_key].name
    logger.warning("%s was not passed on: the controller answered error %d", name, answer.error_code)
    text = "the request could not be passed on to the controller"
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text)


def _envelope(frame: bytes, principal: str, peer: str) -> EnvelopeRequest:
    host = peer.rpartition(":")[0].strip("[]").partition("%")[0]
    return EnvelopeRequest(
        request_data=frame,
        request_principal=encode_principal(principal),
        client_host_address=ip_address(host).packed,
    )
