"""The settings of a listener whose clients and nodes authenticate with tokens of an identity provider."""

from __future__ import annotations

from tests.support.security.identity_provider import KEYS_PATH, TOKEN_PATH, IdentityProvider
from tidelog.broker.config.oauthbearer_config import SIGNED_VALIDATOR
from tidelog.clients.security.oauthbearer.login_settings import LOGIN_HANDLER
from tidelog.security.jaas import OAUTHBEARER_LOGIN_MODULE


def oauth_listener(name: str, provider: IdentityProvider, client_id: str, secret: str) -> dict[str, str]:
    """Return the settings for clients of the listener and for connections to it of other nodes."""
    prefix = f"listener.name.{name}.oauthbearer.sasl."
    jaas = f'{OAUTHBEARER_LOGIN_MODULE} required clientId="{client_id}" clientSecret="{secret}";'
    return {
        f"{prefix}jaas.config": jaas,
        f"{prefix}server.callback.handler.class": SIGNED_VALIDATOR,
        f"{prefix}login.callback.handler.class": LOGIN_HANDLER,
        f"{prefix}oauthbearer.jwks.endpoint.url": provider.url + KEYS_PATH,
        f"{prefix}oauthbearer.token.endpoint.url": provider.url + TOKEN_PATH,
    }
