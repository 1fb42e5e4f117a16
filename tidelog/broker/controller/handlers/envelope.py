"""Envelope (key 58), version 0: a client's request that a broker forwards to the active controller.

The inner request is handled as if the client had sent it to this node: with the client's principal, address
and header. Only the APIs in `FORWARDABLE` are allowed inside. Its time on the event loop counts for the
client's quota of request time, and the inner response has the throttle time.

    principal cannot be decoded        PRINCIPAL_DESERIALIZATION_FAILURE
    address cannot be decoded, or      INVALID_REQUEST
    the API is not allowed inside
    inner request cannot be decoded,   UNSUPPORTED_VERSION: the broker closes the client's connection, so that
    or has an unsupported version      the client requests the supported versions again
    this node is not the controller    NOT_CONTROLLER: the broker sends the request to another node
    any other error                    is in the inner response

Source: KIP-590; EnvelopeUtils and RequestChannel of Apache Kafka 4.3, ApiKeys for the allowed APIs.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address

from tidelog.broker.api.dispatch import Dispatcher
from tidelog.broker.network.connected_client import ConnectedClient
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.quotas.event_loop_time import EventLoopTime
from tidelog.protocol.codec import decode_in_steps
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.framing import SIZE_BYTES, encode_response_in_steps, read_request_header
from tidelog.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from tidelog.protocol.principal_data import ForwardedPrincipal, decode_principal
from tidelog.protocol.registry import APIS, FORWARDABLE, request_type
from tidelog.protocol.response_errors import contains_error
from tidelog.protocol.schema import ApiMessage
from tidelog.protocol.steps import Steps


class EnvelopeHandler:
    """Calls the handler of the inner request through the controller's dispatcher."""

    def __init__(self, dispatcher: Dispatcher, is_active: Callable[[], bool]) -> None:
        self._dispatcher = dispatcher
        self._is_active = is_active
        self._slices = dispatcher.slices

    async def handle(self, context: RequestContext, request: EnvelopeRequest) -> EnvelopeResponse:
        """Return the inner response with its header. Raise KafkaError as listed above."""
        if not self._is_active():
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller")
        time = EventLoopTime(self._dispatcher.clock.monotonic_ns)
        inner, message = await self._slices.complete(time.of_steps(_unwrap(context, request)))
        response = await self._dispatcher.call_forwarded(inner, message, time)
        return await self._slices.complete(_wrap(inner, response))


def _wrap(inner: RequestContext, response: ApiMessage) -> Steps[EnvelopeResponse]:
    """Return the inner response in an Envelope. Raise KafkaError NOT_CONTROLLER if it has this error."""
    if (yield from contains_error(response, ErrorCode.NOT_CONTROLLER)):
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "this node is no longer the active controller")
    key, version, correlation_id, _ = inner.header
    first, *others = yield from encode_response_in_steps(key, version, correlation_id, response)
    return EnvelopeResponse(response_data=b"".join((memoryview(first)[SIZE_BYTES:], *others)))


def _unwrap(context: RequestContext, request: EnvelopeRequest) -> Steps[tuple[RequestContext, ApiMessage]]:
    """Return the context and the message of the inner request. Raise KafkaError as listed above."""
    principal, is_token_authenticated = _principal(request.request_principal)
    host = _host(request.client_host_address)
    frame = memoryview(request.request_data)
    try:
        header, position = read_request_header(frame)
    except DecodeError as error:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"header of the inner request: {error}") from error
    api = APIS[header.api_key]
    if header.api_key not in FORWARDABLE:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{api.name} may not be inside an Envelope")
    version = header.api_version
    message_type = request_type(header.api_key)
    if version not in message_type.valid_versions or not api.lowest <= version <= api.highest:
        text = f"{api.name} version {version}: {api.lowest} to {api.highest} are served"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
    try:
        message = yield from decode_in_steps(message_type, frame[position:], version)
    except DecodeError as error:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"inner request: {error}") from error
    inner = RequestContext(
        header,
        context.listener,
        f"{host}:0",
        principal,
        context.now_ms,
        ConnectedClient(principal, is_token_authenticated=is_token_authenticated),
        is_forwarded=True,
    )
    return inner, message


def _principal(data: bytes | None) -> ForwardedPrincipal:
    try:
        return decode_principal(data or b"")
    except DecodeError as error:
        raise KafkaError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, str(error)) from error


def _host(address: bytes) -> str:
    try:
        return str(ip_address(bytes(address)))
    except ValueError:
        text = f"the client address has {len(address)} bytes; allowed are 4 and 16"
        raise KafkaError(ErrorCode.INVALID_REQUEST, text) from None
