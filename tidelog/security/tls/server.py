"""The TLS of one listener: the context of new connections, which can be replaced, and clients' principals."""

from __future__ import annotations

import ssl
from typing import NamedTuple

from cryptography import x509

from tidelog.security.tls.contexts import server_context
from tidelog.security.tls.distinguished_name import subject_name
from tidelog.security.tls.principal_mapping import PrincipalMapper
from tidelog.security.tls.settings import TlsSettings


class ServerIdentity(NamedTuple):
    """A context with the certificate that it presents, and the settings that it was created from."""

    settings: TlsSettings
    context: ssl.SSLContext
    certificate: x509.Certificate


def load_server_identity(settings: TlsSettings) -> ServerIdentity:
    """Return a context of the present contents of the stores. I/O: reads files. Errors: ConfigError."""
    context, certificate = server_context(settings)
    return ServerIdentity(settings, context, certificate)


class TlsServer:
    """Has the identity that a listener presents to new connections; open connections keep theirs."""

    def __init__(self, identity: ServerIdentity, mapper: PrincipalMapper) -> None:
        self.identity = identity
        self._mapper = mapper

    @property
    def context(self) -> ssl.SSLContext:
        """The context for the next connection."""
        return self.identity.context

    def principal(self, certificate: bytes) -> str:
        """Return the principal of a client from its certificate in DER encoding.

        Errors: ValueError if the certificate cannot be decoded or no mapping rule matches.
        """
        return f"User:{self._mapper.principal_name(subject_name(certificate))}"
