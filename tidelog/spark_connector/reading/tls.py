"""Creates a TLS context from Kafka's `ssl.*` options, where it is used: it cannot be sent to executors.

Certificates and keys are PEM files (Kafka's type PEM). Java key stores are not supported.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from tidelog.spark_connector.planning.client_options import ClientOptions
from tidelog.spark_connector.planning.option_values import OptionError

_KNOWN = (
    "ssl.truststore.location",
    "ssl.truststore.type",
    "ssl.keystore.location",
    "ssl.keystore.type",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
)


def tls_values(client: ClientOptions) -> dict[str, Any]:
    """Return the TLS context as an option of Tidelog's clients; empty for security.protocol PLAINTEXT."""
    if client.values.get("security_protocol") != "SSL":
        return {}
    return {"ssl_context": tls_context(client.tls)}


def tls_context(options: Mapping[str, str]) -> ssl.SSLContext:
    """Return the context; without a trust store, it uses the system's certificates.

    Errors: OptionError for an unknown option or type, or a file that cannot be used.
    """
    for name, value in options.items():
        if name not in _KNOWN:
            raise OptionError(f"unknown option kafka.{name}: expected one of {', '.join(_KNOWN)}")
        if name.endswith("store.type") and value.upper() != "PEM":
            raise OptionError.of(f"kafka.{name}", value, "PEM")
    trusted = options.get("ssl.truststore.location")
    try:
        context = ssl.create_default_context(cafile=trusted)
        if own := options.get("ssl.keystore.location"):
            context.load_cert_chain(own, password=options.get("ssl.key.password"))
    except OSError as error:
        raise OptionError(f"options kafka.ssl.*: {trusted or ''} {error}") from error
    if options.get("ssl.endpoint.identification.algorithm", "https") == "":
        context.check_hostname = False
    return context
