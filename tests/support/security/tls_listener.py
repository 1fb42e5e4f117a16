"""A listener with TLS and the contexts of its clients, with certificates of one authority."""

from __future__ import annotations

import ssl
from typing import Final

from tidelog.security.certificate_authority import Authority, Identity
from tidelog.security.tls.contexts import client_context
from tidelog.security.tls.principal_mapping import PrincipalMapper
from tidelog.security.tls.server import TlsServer, load_server_identity
from tidelog.security.tls.settings import parse_tls_settings

AUTHORITY: Final = Authority.create()
SERVER: Final = AUTHORITY.issue("broker")
TRUSTED: Final = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": AUTHORITY.pem()}


def keys_of(identity: Identity) -> dict[str, str]:
    """Return the settings of a key store with `identity`."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": identity.key_pem(),
        "ssl.keystore.certificate.chain": identity.chain_pem(),
    }


def tls_server(rules: str = "DEFAULT", **texts: str) -> TlsServer:
    """Return the TLS of a listener with settings, for example `ssl_client_auth`, and mapping rules."""
    configs = {key.replace("_", "."): text for key, text in texts.items()}
    settings = parse_tls_settings({**keys_of(SERVER), **TRUSTED, **configs})
    return TlsServer(load_server_identity(settings), PrincipalMapper(rules))


def context_that_trusts(identity: Identity | None = None, authority: Authority = AUTHORITY) -> ssl.SSLContext:
    """Return the context of a client that trusts `authority` and presents `identity`."""
    own = {} if identity is None else keys_of(identity)
    trusted = {**TRUSTED, "ssl.truststore.certificates": authority.pem()}
    return client_context(parse_tls_settings({**own, **trusted}))
