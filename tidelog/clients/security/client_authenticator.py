"""The authenticator that the options of a client describe."""

from __future__ import annotations

from tidelog.clients.config.client_config import ClientConfig
from tidelog.clients.config.environment import Environment
from tidelog.clients.config.options import ConfigError
from tidelog.clients.security.sasl_authenticator import SaslAuthenticator
from tidelog.clients.transport.connection import Authenticator
from tidelog.security.oauthbearer.messages import OAUTHBEARER


def client_authenticator(config: ClientConfig, environment: Environment) -> Authenticator | None:
    """Return the authenticator of a client; None without SASL. Errors: ConfigError."""
    if not config.uses_sasl:
        return None
    if config.sasl_mechanism == OAUTHBEARER:
        # Imported here: other clients start without the modules for tokens and HTTP.
        from tidelog.clients.security.oauthbearer.client_login import oauthbearer_authenticator

        return oauthbearer_authenticator(config, environment)
    credentials = config.sasl_credentials
    if credentials is None:
        allowed = f"a JAAS config, because security_protocol is {config.security_protocol}"
        raise ConfigError("sasl_jaas_config", None, allowed)
    return SaslAuthenticator(credentials)
