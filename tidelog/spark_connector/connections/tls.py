"""Creates a TLS context from Kafka's `ssl.*` options, where it is used: it cannot be sent to executors.

Unlike in Kafka, the default type of stores is PEM, as Java key stores are not supported.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any, Final

from tidelog.base.config_definition import ConfigError
from tidelog.security.tls.contexts import client_context
from tidelog.security.tls.settings import TLS_KEYS, UNSUPPORTED_KEYS, KeyNames, parse_tls_settings
from tidelog.spark_connector.planning.client_options import ClientOptions
from tidelog.spark_connector.planning.option_values import OptionError

_DEFAULT_TYPES: Final = {"ssl.keystore.type": "PEM", "ssl.truststore.type": "PEM"}
_NAMES: Final = KeyNames("kafka.", TLS_KEYS | UNSUPPORTED_KEYS)


def tls_values(client: ClientOptions) -> dict[str, Any]:
    """Return the TLS context as an option of Tidelog's clients; empty for protocols without TLS."""
    if client.values.get("security_protocol") not in ("SSL", "SASL_SSL"):
        return {}
    return {"ssl_context": tls_context(client.tls)}


def tls_context(options: Mapping[str, str]) -> ssl.SSLContext:
    """Return the context; without a trust store, it uses the system's certificates.

    Errors: OptionError for an unknown option, and for a store that cannot be used.
    """
    for name in options:
        if name not in TLS_KEYS | UNSUPPORTED_KEYS:
            raise OptionError(f"Unknown option: kafka.{name}; expected one of {', '.join(sorted(TLS_KEYS))}")
    try:
        return client_context(parse_tls_settings({**_DEFAULT_TYPES, **options}, _NAMES))
    except ConfigError as error:
        raise OptionError(str(error)) from None
