"""The TLS of a client, from its options: Kafka's `ssl.*` keys, or an SSL context of the application.

I/O: reads key stores and trust stores. Errors: ConfigError with the option, never with a secret.
"""

from __future__ import annotations

from tidelog.base import config_definition
from tidelog.clients.config.client_config import ClientConfig, ContextSource
from tidelog.clients.config.options import ConfigError


def context_source(config: ClientConfig) -> ContextSource | None:
    """Return the source of the contexts of new connections; None if they are not encrypted."""
    if config.security_protocol not in ("SSL", "SASL_SSL"):
        return None
    own = config.ssl_context
    if own is not None:
        return own if callable(own) else lambda: own
    # Imported here: without TLS, a client starts without the libraries for certificates.
    from tidelog.security.tls.contexts import client_context
    from tidelog.security.tls.settings import TLS_KEYS, parse_tls_settings

    texts = {key: getattr(config, key.replace(".", "_"), None) for key in TLS_KEYS}
    try:
        context = client_context(parse_tls_settings(texts))
    except config_definition.ConfigError as error:
        option = error.key.replace(".", "_")
        raise ConfigError(option, error.value, error.allowed, text=str(error)) from None
    return lambda: context
