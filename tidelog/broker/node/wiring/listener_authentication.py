"""The authentication of a node's listeners: the handlers of received requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.base.config_definition import ConfigError
from tidelog.base.dataclass import dataclass
from tidelog.broker.config.listeners import Listener
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.config.sasl_config import (
    SASL_PROTOCOLS,
    SaslListenerConfig,
    changed_sasl_config,
    sasl_listener_config,
)
from tidelog.broker.network.authentication_counters import AuthenticationCounters
from tidelog.broker.network.request import Request
from tidelog.broker.node.wiring.node_context import NodeContext
from tidelog.broker.security.authentication.exchanges import CredentialSources, exchange_factory
from tidelog.broker.security.authentication.gate import GatePorts, SaslGate
from tidelog.broker.security.authentication.scram_credentials import ScramCredentials
from tidelog.broker.security.authentication.token_credentials import TokenCredentials
from tidelog.cluster.image import MetadataImage
from tidelog.security.oauthbearer.server import TokenValidation
from tidelog.security.oauthbearer.unsecured import UnsecuredValidator

if TYPE_CHECKING:
    from tidelog.broker.security.authentication.verification_keys import VerificationKeys

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _OpenGate:
    """The gate of a listener with its current settings."""

    gate: SaslGate
    config: SaslListenerConfig
    validate_token: TokenValidation | None


class ListenerAuthentication:
    """Creates the gates of listeners with SASL; `on_request` handles requests of authenticated clients.

    `start` it before clients are served, and `close` it at the end.
    """

    def __init__(
        self,
        context: NodeContext,
        image: Callable[[], MetadataImage],
        on_request: Callable[[Request], None],
    ) -> None:
        self._context = context
        self._sources = CredentialSources(
            passwords=ScramCredentials(image, context.randomness),
            tokens=TokenCredentials(
                image, context.config.delegation_token_secret_key, context.randomness, context.clock
            ),
            clock=context.clock,
        )
        self._on_request = on_request
        self._verification_keys: list[VerificationKeys] = []
        self._gates: dict[str, _OpenGate] = {}
        """The gates by the names of their listeners."""

    def request_handler(
        self, listener: Listener, authentications: AuthenticationCounters
    ) -> Callable[[Request], None]:
        """Return the function that handles each request of `listener`; `authentications` are its counters."""
        if listener.security_protocol not in SASL_PROTOCOLS:
            return self._on_request
        context = self._context
        config = sasl_listener_config(context.config, listener.name)
        ports = GatePorts(
            clock=context.clock,
            call_later=asyncio.get_running_loop().call_later,
            on_request=self._on_request,
            request_bytes_max=context.config.socket_request_max_bytes,
            authentications=authentications,
        )
        validate_token = self._token_validation(config)
        create_exchange = exchange_factory(config, self._sources, context.randomness, validate_token)
        gate = SaslGate(config, create_exchange, ports)
        self._gates[listener.name] = _OpenGate(gate, config, validate_token)
        return gate.handle

    def apply(self, config: BrokerConfig) -> None:
        """Use changed users and mechanisms for the next authentications."""
        for name, open_gate in self._gates.items():
            try:
                new_config = changed_sasl_config(config, name, open_gate.config)
            except ConfigError as error:
                text = "Cannot change the authentication of listener %s: %s; keeping the old settings"
                logger.error(text, name, error)
                continue
            if new_config != open_gate.config:
                open_gate.config = new_config
                randomness, validate_token = self._context.randomness, open_gate.validate_token
                create_exchange = exchange_factory(new_config, self._sources, randomness, validate_token)
                open_gate.gate.reconfigure(new_config, create_exchange)

    async def start(self) -> None:
        """Fetch the keys that verify tokens. Errors: ConfigError if a file has no keys."""
        for keys in self._verification_keys:
            await keys.start()

    async def close(self) -> None:
        """Fetch no more keys."""
        for keys in self._verification_keys:
            await keys.close()

    def _token_validation(self, config: SaslListenerConfig) -> TokenValidation | None:
        """Return the validation of tokens; None without OAUTHBEARER."""
        oauthbearer, context = config.oauthbearer, self._context
        if oauthbearer is None:
            return None
        if isinstance(oauthbearer, UnsecuredValidator):
            return lambda value: oauthbearer.validate(value, context.clock.wall_ms())
        # Imported here: without OAUTHBEARER, a node starts without the libraries for tokens and certificates.
        from tidelog.broker.security.authentication.verification_keys import KeyPorts, VerificationKeys

        ports = KeyPorts(context.clock, context.environment, context.threads.housekeeping)
        keys = VerificationKeys(oauthbearer, ports)
        self._verification_keys.append(keys)
        return keys.validate
