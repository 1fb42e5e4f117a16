"""SaslHandshake and SaslAuthenticate where no authentication may begin: ILLEGAL_SASL_STATE.

On listeners without SASL, and on connections that are authenticated and may not authenticate again. In all
other cases `tidelog.broker.security.authentication.gate` handles these requests.

Source: KafkaApis.handleSaslHandshakeRequest and handleSaslAuthenticateRequest of Apache Kafka 4.3.
"""

from __future__ import annotations

from tidelog.broker.api.dispatch import Dispatcher
from tidelog.broker.network.request_context import RequestContext
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tidelog.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tidelog.protocol.registry import ApiKey

_TEXT = "SaslAuthenticate request received after successful authentication"


def register_sasl_apis(dispatcher: Dispatcher) -> None:
    """Register both APIs, which ApiVersions advertises on every listener."""
    dispatcher.register(ApiKey.SASL_HANDSHAKE, _reject_handshake)
    dispatcher.register(ApiKey.SASL_AUTHENTICATE, _reject_authenticate)


def _reject_handshake(context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


def _reject_authenticate(
    context: RequestContext, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=_TEXT)
