"""Authenticates connections with PLAIN or SCRAM, as a client (shell).

Source: KIP-152, KIP-368; SaslClientAuthenticator of Apache Kafka 4.3.
"""

from __future__ import annotations

from tidelog.base.randomness import SYSTEM_RANDOMNESS, Randomness
from tidelog.clients.config.sasl_credentials import SaslCredentials
from tidelog.clients.security.sasl_exchange import choose_mechanism, exchange, fail
from tidelog.clients.transport.connection import BrokerConnection
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
        await choose_mechanism(connection, mechanism)
        try:
            if mechanism == PLAIN:
                return await self._plain(connection)
            return await self._scram(connection)
        except AuthenticationError as error:
            fail(connection, str(error))

    async def _plain(self, connection: BrokerConnection) -> int:
        message = encode_plain(self._credentials.user, self._credentials.password)
        return (await exchange(connection, message)).session_lifetime_ms

    async def _scram(self, connection: BrokerConnection) -> int:
        credentials = self._credentials
        client = ScramClient(
            SCRAM_MECHANISMS[credentials.mechanism],
            credentials.user,
            credentials.password,
            random_text(self._randomness),
            is_token=credentials.is_token,
        )
        first = await exchange(connection, client.first())
        final = await exchange(connection, client.respond(first.auth_bytes))
        client.verify(final.auth_bytes)
        return final.session_lifetime_ms
