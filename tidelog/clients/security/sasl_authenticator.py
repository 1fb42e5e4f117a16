"""Authenticates connections with PLAIN or SCRAM, as a client (shell).

Source: KIP-152, KIP-368; SaslClientAuthenticator of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import NoReturn

from tidelog.base.randomness import SYSTEM_RANDOMNESS, Randomness
from tidelog.clients.security.sasl_credentials import SaslCredentials
from tidelog.clients.transport.connection import BrokerConnection
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tidelog.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tidelog.security.authentication_error import AuthenticationError
from tidelog.security.plain import PLAIN, encode_plain
from tidelog.security.scram.client import ScramClient
from tidelog.security.scram.credentials import SCRAM_MECHANISMS, random_text


class SaslAuthenticator:
    """Authenticates with one mechanism and one pair of credentials; implements `Authenticator`."""

    def __init__(self, credentials: SaslCredentials, randomness: Randomness = SYSTEM_RANDOMNESS) -> None:
        self._credentials = credentials
        self._randomness = randomness

    async def authenticate(self, connection: BrokerConnection) -> int:
        """Authenticate; return the lifetime of the session in milliseconds, 0 for no limit.

        Errors: KafkaError UNSUPPORTED_SASL_MECHANISM, SASL_AUTHENTICATION_FAILED.
        """
        mechanism = self._credentials.mechanism
        handshake = await connection.request(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse)
        if handshake.error_code != ErrorCode.NONE:
            enabled = ", ".join(handshake.mechanisms)
            text = f"{connection.peer} does not accept SASL mechanism {mechanism}; enabled are: {enabled}"
            raise KafkaError(ErrorCode(handshake.error_code), text)
        try:
            if mechanism == PLAIN:
                return await self._plain(connection)
            return await self._scram(connection)
        except AuthenticationError as error:
            _fail(connection, str(error))

    async def _plain(self, connection: BrokerConnection) -> int:
        message = encode_plain(self._credentials.user, self._credentials.password)
        return (await _exchange(connection, message)).session_lifetime_ms

    async def _scram(self, connection: BrokerConnection) -> int:
        credentials = self._credentials
        client = ScramClient(
            SCRAM_MECHANISMS[credentials.mechanism],
            credentials.user,
            credentials.password,
            random_text(self._randomness),
        )
        first = await _exchange(connection, client.first())
        final = await _exchange(connection, client.respond(first.auth_bytes))
        client.verify(final.auth_bytes)
        return final.session_lifetime_ms


async def _exchange(connection: BrokerConnection, message: bytes) -> SaslAuthenticateResponse:
    response = await connection.request(SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse)
    if response.error_code != ErrorCode.NONE:
        _fail(connection, response.error_message or ErrorCode(response.error_code).text)
    return response


def _fail(connection: BrokerConnection, reason: str) -> NoReturn:
    text = f"authentication with {connection.peer} failed: {reason}"
    raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, text)
