"""Authenticates connections with OAUTHBEARER, as a client (shell).

Source: RFC 7628; OAuthBearerSaslClient of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.clients.security.oauthbearer.login import TokenLogin
from tidelog.clients.security.oauthbearer.token_requests import TokenRetrievalError
from tidelog.clients.security.sasl_exchange import choose_mechanism, exchange, fail
from tidelog.clients.transport.connection import BrokerConnection
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.security.oauthbearer.messages import (
    FAILURE_ACKNOWLEDGEMENT,
    OAUTHBEARER,
    encode_client_first,
)


class OAuthBearerAuthenticator:
    """Authenticates with the token of `login` and SASL extensions; implements `Authenticator`."""

    def __init__(self, login: TokenLogin, extensions: Mapping[str, str]) -> None:
        self._login = login
        self._extensions = extensions

    async def authenticate(self, connection: BrokerConnection) -> int:
        """Authenticate; return the lifetime of the session in milliseconds, 0 for no limit.

        Errors: KafkaError UNSUPPORTED_SASL_MECHANISM, SASL_AUTHENTICATION_FAILED; NETWORK_EXCEPTION while the
        identity provider is unavailable.
        """
        try:
            token = await self._login.token()
        except TokenRetrievalError as error:
            if error.is_retriable:
                raise KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error)) from None
            fail(connection, str(error))
        await choose_mechanism(connection, OAUTHBEARER)
        response = await exchange(connection, encode_client_first(token.value, self._extensions))
        if response.auth_bytes:
            # The broker has rejected the token, and ends the exchange with an error.
            await exchange(connection, FAILURE_ACKNOWLEDGEMENT)
            fail(connection, "the broker has rejected the token")
        return response.session_lifetime_ms
