"""The login of a client with OAUTHBEARER, from its options.

I/O: reads trust stores. Errors: ConfigError with the option, never with a secret.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from tidelog.base import config_definition
from tidelog.clients.config.client_config import ClientConfig
from tidelog.clients.config.environment import Environment
from tidelog.clients.config.options import ConfigError
from tidelog.clients.security.oauthbearer.authenticator import OAuthBearerAuthenticator
from tidelog.clients.security.oauthbearer.login import TokenLogin
from tidelog.clients.security.oauthbearer.login_settings import LOGIN_KEYS, login_settings, refresh_settings
from tidelog.clients.security.oauthbearer.token_sources import ProviderRetriever, token_retriever
from tidelog.security.jaas import JaasError, parse_jaas
from tidelog.security.oauthbearer.allowed_resources import AllowedResources
from tidelog.security.oauthbearer.messages import OAUTHBEARER


def oauthbearer_authenticator(config: ClientConfig, environment: Environment) -> OAuthBearerAuthenticator:
    """Return the authenticator of a client with OAUTHBEARER."""

    def value_of(key: str) -> object:
        assert key in LOGIN_KEYS
        return getattr(config, _option(key))

    try:
        if config.oauth_token_provider is not None:
            retriever = ProviderRetriever(config.oauth_token_provider, environment)
            return OAuthBearerAuthenticator(
                TokenLogin(retriever, refresh_settings(value_of), environment), {}
            )
        allowed = AllowedResources.of_environment(os.environ)
        settings = login_settings(value_of, _module_options(config), allowed)
        login = TokenLogin(token_retriever(settings, environment), settings.refresh, environment)
    except config_definition.ConfigError as error:
        raise ConfigError(_option(error.key), error.value, error.allowed, text=str(error)) from None
    return OAuthBearerAuthenticator(login, settings.extensions)


def _module_options(config: ClientConfig) -> Mapping[str, str]:
    if config.sasl_jaas_config is None:
        return {}
    try:
        return parse_jaas(config.sasl_jaas_config, OAUTHBEARER).options
    except JaasError as error:
        raise ConfigError("sasl_jaas_config", "[hidden]", str(error)) from None


def _option(key: str) -> str:
    return key.replace(".", "_")
