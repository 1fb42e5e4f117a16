"""The gate of a SASL listener: it forwards requests only after the client has authenticated.

    before authentication   one ApiVersions is forwarded, SaslHandshake and the messages of the mechanism are
                            handled here, and every other request closes the connection
    after authentication    every request is forwarded, until the session expires

A failure is reported after connection.failed.authentication.delay.ms, and then the connection is closed.
After a handshake of version 0, messages are frames without a header, as old clients send them.

Source: SaslServerAuthenticator, KafkaChannel and Processor of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from tidelog.base.clock import Clock
from tidelog.base.dataclass import dataclass
from tidelog.broker.config.sasl_config import SaslListenerConfig
from tidelog.broker.network.authentication_counters import AuthenticationCounters
from tidelog.broker.network.request import Request
from tidelog.broker.security.authentication.exchanges import ExchangeFactory
from tidelog.broker.security.authentication.session import SaslSession, SessionState
from tidelog.protocol.codec import decode_prefix
from tidelog.protocol.errors import DecodeError, ErrorCode
from tidelog.protocol.framing import RequestHeader, encode_response, read_request_header
from tidelog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tidelog.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tidelog.protocol.registry import APIS, ApiKey
from tidelog.protocol.schema import ApiMessage
from tidelog.security.authentication_error import AuthenticationError

_AUTHENTICATED: Final = SessionState.AUTHENTICATED
_HANDSHAKE_KEY: Final = ApiKey.SASL_HANDSHAKE.to_bytes(2, "big")
_SIZE_BYTES: Final = 4

MessageT = TypeVar("MessageT", bound=ApiMessage)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePorts:
    """The parts of a node that a gate uses.

    `call_later` calls a function after some seconds; `on_request` handles admitted requests.
    `request_bytes_max` limits the frames of authenticated clients.
    """

    clock: Clock
    call_later: Callable[[float, Callable[[], None]], object]
    on_request: Callable[[Request], None]
    request_bytes_max: int
    authentications: AuthenticationCounters


class SaslGate:
    """Authenticates the connections of one listener; each has its `SaslSession`."""

    def __init__(
        self, config: SaslListenerConfig, create_exchange: ExchangeFactory, ports: GatePorts
    ) -> None:
        self._config = config
        self._create_exchange = create_exchange
        self._authentications = ports.authentications
        self._clock = ports.clock
        self._call_later = ports.call_later
        self._on_request = ports.on_request
        self._request_bytes_max = ports.request_bytes_max

    def reconfigure(self, config: SaslListenerConfig, create_exchange: ExchangeFactory) -> None:
        """Use changed settings from the next handshake on, also for clients that authenticate again."""
        self._config = config
        self._create_exchange = create_exchange

    def handle(self, request: Request) -> None:
        """Handle a frame of a connection; raise no error."""
        client = request.client
        session = client.session
        if not isinstance(session, SaslSession):
            session = SaslSession(self._config, self._create_exchange)
            client.begin_session(session)
        if session.state is _AUTHENTICATED:
            self._handle_authenticated(request, session)
        elif session.is_exchanging and session.has_raw_frames:
            self._on_raw_message(request, session)
        else:
            try:
                self._authenticate(request, session)
            except DecodeError as error:
                self._fail(request, session, f"malformed request before authentication: {error}")

    def _handle_authenticated(self, request: Request, session: SaslSession) -> None:
        if request.frame[:2] == _HANDSHAKE_KEY and session.admit_reauthentication(self._clock.monotonic_ms()):
            try:
                header, position = read_request_header(request.frame)
                self._on_handshake(request, session, header, position)
            except DecodeError as error:
                self._fail(request, session, f"malformed request for re-authentication: {error}")
        elif session.has_lifetime and session.is_expired(self._clock.monotonic_ms()):
            session.fail()
            self._authentications.on_session_expired()
            request.close(f"the session of {session.principal} has expired")
        else:
            self._on_request(request)

    def _authenticate(self, request: Request, session: SaslSession) -> None:
        header, position = read_request_header(request.frame)
        key = header.api_key
        if key == ApiKey.API_VERSIONS and session.admits_versions_request:
            # After an unsupported version, the client sends another one.
            if header.api_version <= APIS[key].highest:
                session.on_versions_requested()
            self._on_request(request)
        elif session.state is SessionState.HANDSHAKE and key == ApiKey.SASL_HANDSHAKE:
            self._on_handshake(request, session, header, position)
        elif session.is_exchanging and key == ApiKey.SASL_AUTHENTICATE:
            self._on_authenticate(request, session, header, position)
        else:
            # The body is not decoded: only authenticated clients may cause the decoding of large messages.
            self._fail(request, session, f"unexpected {APIS[key].name} request during SASL authentication")

    def _on_handshake(
        self, request: Request, session: SaslSession, header: RequestHeader, position: int
    ) -> None:
        message = _decode(SaslHandshakeRequest, request, header, position)
        code, reason = ErrorCode.NONE, ""
        session.configure(self._config, self._create_exchange)
        try:
            session.choose(message.mechanism, has_raw_frames=header.api_version == 0)
        except AuthenticationError as error:
            code, reason = ErrorCode.UNSUPPORTED_SASL_MECHANISM, str(error)
        response = SaslHandshakeResponse(error_code=code, mechanisms=self._config.mechanisms)
        self._respond(request, session, _encode(header, response), reason)

    def _on_authenticate(
        self, request: Request, session: SaslSession, header: RequestHeader, position: int
    ) -> None:
        message = _decode(SaslAuthenticateRequest, request, header, position)
        now_ms, reason = self._clock.monotonic_ms(), ""
        try:
            data = session.evaluate(message.auth_bytes, now_ms, can_reauthenticate=header.api_version > 0)
            lifetime_ms = session.lifetime_ms(now_ms)
            response = SaslAuthenticateResponse(
                error_message=None, auth_bytes=data, session_lifetime_ms=lifetime_ms
            )
        except AuthenticationError as error:
            reason = str(error)
            response = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
                error_message=error.client_text or session.error_text,
            )
        self._respond(request, session, _encode(header, response), reason)

    def _on_raw_message(self, request: Request, session: SaslSession) -> None:
        try:
            data = session.evaluate(bytes(request.frame), self._clock.monotonic_ms())
        except AuthenticationError as error:
            self._fail(request, session, str(error))
            return
        self._respond(request, session, len(data).to_bytes(_SIZE_BYTES, "big") + data, "")

    def _respond(self, request: Request, session: SaslSession, response: bytes, failure: str) -> None:
        """Send a response; after a failure delay it and close the connection."""
        if failure:
            self._fail(request, session, failure, response)
            return
        if session.state is _AUTHENTICATED:
            assert session.principal is not None
            self._count_success(session)
            request.client.on_authenticated(
                session.principal, is_token_authenticated=session.is_token_authenticated
            )
            request.connection.buffer.allow(self._request_bytes_max)
        elif session.is_rejected:
            # Counted now, because the client may close the connection instead of acknowledging this.
            self._count_failure(session)
        request.respond(response)

    def _count_success(self, session: SaslSession) -> None:
        """Count a complete authentication or re-authentication."""
        started_ms = session.reauthentication_started_ms
        if started_ms is None:
            self._authentications.on_success(can_reauthenticate=session.can_reauthenticate)
        else:
            now_ms = self._clock.monotonic_ms()
            self._authentications.on_reauthentication(now_ms - started_ms, now_ms)

    def _count_failure(self, session: SaslSession) -> None:
        """Count a failure once, and count the connection for its address until the end of the delay.

        A client that does not wait for the response must not have more attempts than one that does.
        """
        until_ms = self._clock.monotonic_ms() + self._config.failure_delay_ms
        if session.count_failure(until_ms):
            self._authentications.on_failure(is_reauthentication=session.principal is not None)

    def _fail(
        self, request: Request, session: SaslSession, reason: str, response: bytes | None = None
    ) -> None:
        """Close the connection after the delay that bounds the rate of attempts."""
        session.fail()
        self._count_failure(session)

        def close() -> None:
            if not request.is_open:
                return
            if response is None:
                request.close(f"authentication failed: {reason}")
                return
            connection = request.connection
            request.respond(response)
            connection.fail(f"authentication failed: {reason}")

        delay_ms = self._config.failure_delay_ms
        if delay_ms <= 0:
            close()
            return
        request.release_frame()
        request.begin_waiting(_ignore)
        self._call_later(delay_ms / 1000, close)


def _ignore(_: Request) -> None:
    """Do nothing: the peer has closed the connection before the end of the delay."""


def _decode(kind: type[MessageT], request: Request, header: RequestHeader, position: int) -> MessageT:
    version = header.api_version
    if version not in kind.valid_versions:
        raise DecodeError(f"version {version} of {APIS[kind.api_key].name} is not supported")
    return decode_prefix(kind, request.frame[position:], version, 0)[0]


def _encode(header: RequestHeader, response: ApiMessage) -> bytes:
    return bytes(encode_response(header.api_key, header.api_version, header.correlation_id, response))
