"""A TLS context from Kafka's `ssl.*` options, made where it is used as it cannot be sent to executors.

Certificates and keys are PEM files, Kafka's type PEM; Java's key stores are not read.
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
    """The TLS context as an option of our clients; empty where the protocol is plain."""
    if client.values.get("security_protocol") != "SSL":
        return {}
    return {"ssl_context": tls_context(client.tls)}


def tls_context(options: Mapping[str, str]) -> ssl.SSLContext:
    """The context; without a trust store the system's certificates count.

    Errors: OptionError for an option or a type that is not known, or a file that cannot be used.
    """
    for name, value in options.items():
        if name not in _KNOWN:
            raise OptionError(f"option kafka.{name} is not known: expected one of {', '.join(_KNOWN)}")
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
