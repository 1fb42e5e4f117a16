"""The requests of SASL that all mechanisms share (shell).

Source: KIP-152; SaslClientAuthenticator of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import NoReturn

from tidelog.clients.transport.connection import BrokerConnection
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tidelog.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


async def choose_mechanism(connection: BrokerConnection, mechanism: str) -> None:
    """Choose `mechanism`; raise KafkaError UNSUPPORTED_SASL_MECHANISM if it is not enabled."""
    handshake = await connection.request(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse)
    if handshake.error_code != ErrorCode.NONE:
        enabled = ", ".join(handshake.mechanisms)
        text = f"{connection.peer} does not accept SASL mechanism {mechanism}; enabled are: {enabled}"
        raise KafkaError(ErrorCode(handshake.error_code), text)


async def exchange(connection: BrokerConnection, message: bytes) -> SaslAuthenticateResponse:
    """Send a message of the mechanism and return the response; raise KafkaError if it is an error."""
    response = await connection.request(SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse)
    if response.error_code != ErrorCode.NONE:
        fail(connection, response.error_message or ErrorCode(response.error_code).text)
    return response


def fail(connection: BrokerConnection, reason: str) -> NoReturn:
    """Raise KafkaError SASL_AUTHENTICATION_FAILED."""
    text = f"authentication with {connection.peer} failed: {reason}"
    raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, text)
