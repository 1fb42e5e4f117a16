"""Authenticates this node by SASL to the listeners of other nodes.

All connections to a listener share their credentials. Listeners with the same settings of OAUTHBEARER share
one login, and therefore the token. Changed settings are used for the next authentications.

Source: LoginManager and SaslChannelBuilder of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeAlias
from weakref import WeakKeyDictionary

from tidelog.base.config_definition import ConfigError
from tidelog.base.dataclass import dataclass
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.config.sasl_config import PeerCredentials, peer_credentials
from tidelog.clients.config.environment import Environment
from tidelog.clients.security.oauthbearer.authenticator import OAuthBearerAuthenticator
from tidelog.clients.security.oauthbearer.login import TokenLogin
from tidelog.clients.security.oauthbearer.login_settings import LoginSettings
from tidelog.clients.security.oauthbearer.token_sources import (
    DeferredRetriever,
    TokenRetriever,
    token_retriever,
)
from tidelog.clients.security.sasl_authenticator import SaslAuthenticator
from tidelog.clients.transport.connection import Authenticator, BrokerConnection
from tidelog.security.oauthbearer.messages import OAUTHBEARER

logger = logging.getLogger(__name__)

CreateRetriever: TypeAlias = Callable[[LoginSettings, Environment], TokenRetriever]
"""`token_retriever` reads the trust store at once, `DeferredRetriever` in a thread when it is used."""


class PeerAuthenticator:
    """Authenticates connections to one listener with the current credentials; implements `Authenticator`.

    A connection that authenticates again keeps its mechanism, which must not change (KIP-368).
    """

    def __init__(self) -> None:
        self._mechanism = ""
        self._authenticators: dict[str, Authenticator] = {}
        self._connections: WeakKeyDictionary[BrokerConnection, str] = WeakKeyDictionary()
        """The mechanisms with which open connections were authenticated."""

    def use(self, mechanism: str, authenticator: Authenticator) -> None:
        """Use a mechanism for new connections, and `authenticator` for all connections with it."""
        self._mechanism = mechanism
        self._authenticators[mechanism] = authenticator

    async def authenticate(self, connection: BrokerConnection) -> int:
        """Authenticate; return the lifetime of the session in milliseconds, 0 for no limit.

        Errors: those of the mechanism's authenticator.
        """
        mechanism = self._connections.setdefault(connection, self._mechanism)
        return await self._authenticators[mechanism].authenticate(connection)


@dataclass(slots=True)
class _Peer:
    """The authentication to one listener, and the credentials in use."""

    authenticator: PeerAuthenticator
    credentials: PeerCredentials


class PeerAuthentication:
    """The authentication of one node to other nodes, by the names of the listeners."""

    def __init__(self, config: BrokerConfig, environment: Environment) -> None:
        self._config = config
        self._environment = environment
        self._peers: dict[str, _Peer] = {}
        self._logins: list[tuple[LoginSettings, TokenLogin]] = []

    def authenticator(self, listener: str) -> Authenticator | None:
        """Return the authenticator of connections to `listener`; None without SASL.

        I/O: reads trust stores at the first call for a listener. Errors: ConfigError.
        """
        peer = self._peers.get(listener)
        if peer is None:
            credentials = peer_credentials(self._config, listener)
            if credentials is None:
                return None
            peer = self._peers[listener] = _Peer(PeerAuthenticator(), credentials)
            self._use(peer, token_retriever)
        return peer.authenticator

    def apply(self, config: BrokerConfig) -> None:
        """Use changed credentials and mechanisms for the next authentications."""
        self._config = config
        for listener, peer in self._peers.items():
            try:
                credentials = peer_credentials(config, listener)
            except ConfigError as error:
                text = "Cannot change the authentication to listener %s: %s; keeping the former credentials"
                logger.error(text, listener, error)
                continue
            if credentials is not None and credentials != peer.credentials:
                peer.credentials = credentials
                # Trust stores must not be read on the event loop while the node runs.
                self._use(peer, DeferredRetriever)
        current_credentials = [peer.credentials for peer in self._peers.values()]
        self._logins = [
            (settings, login) for settings, login in self._logins if settings in current_credentials
        ]

    def _use(self, peer: _Peer, create_retriever: CreateRetriever) -> None:
        credentials = peer.credentials
        if isinstance(credentials, LoginSettings):
            login = self._login(credentials, create_retriever)
            authenticator = OAuthBearerAuthenticator(login, credentials.extensions)
            peer.authenticator.use(OAUTHBEARER, authenticator)
        else:
            peer.authenticator.use(credentials.mechanism, SaslAuthenticator(credentials))

    def _login(self, settings: LoginSettings, create_retriever: CreateRetriever) -> TokenLogin:
        """Return the login of `settings`, a new one if no other listener has the same settings."""
        for login_settings, login in self._logins:
            if login_settings == settings:
                return login
        retriever = create_retriever(settings, self._environment)
        login = TokenLogin(retriever, settings.refresh, self._environment)
        self._logins.append((settings, login))
        return login
