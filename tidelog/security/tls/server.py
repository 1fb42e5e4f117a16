"""The TLS of one listener: the context of new connections, which can be replaced, and clients' principals."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, NamedTuple

from tidelog.security.tls.distinguished_name import distinguished_name
from tidelog.security.tls.file_versions import FileVersion, file_versions
from tidelog.security.tls.principal_mapping import PrincipalMapper
from tidelog.security.tls.settings import TlsSettings

if TYPE_CHECKING:
    from cryptography import x509


class ServerIdentity(NamedTuple):
    """A context and the certificate that it presents, with the settings and files of their origin."""

    settings: TlsSettings
    files: tuple[FileVersion | None, ...]
    context: ssl.SSLContext
    certificate: x509.Certificate


def load_server_identity(settings: TlsSettings) -> ServerIdentity:
    """Return a context of the present contents of the stores. I/O: reads files. Errors: ConfigError."""
    # Imported here: a node without TLS starts without the library for certificates.
    from tidelog.security.tls.contexts import server_context

    # Before the files are read, so that a change after the reading is detected later.
    files = file_versions(settings)
    context, certificate = server_context(settings)
    return ServerIdentity(settings, files, context, certificate)


class TlsServer:
    """Has the identity that a listener presents to new connections; open connections keep theirs."""

    def __init__(self, identity: ServerIdentity, mapper: PrincipalMapper) -> None:
        self.identity = identity
        self._mapper = mapper

    def use(self, identity: ServerIdentity) -> None:
        """Present another identity to new connections."""
        self.identity = identity

    @property
    def context(self) -> ssl.SSLContext:
        """The context for the next connection."""
        return self.identity.context

    def principal(self, certificate: bytes, now_ms: int) -> str:
        """Return the principal of a client from its certificate in DER encoding.

        Errors: ValueError if the certificate cannot be decoded or has expired, or no mapping rule matches.
        """
        # Imported here: a node without TLS starts without the library for certificates.
        from cryptography import x509

        decoded = x509.load_der_x509_certificate(certificate)
        # In a resumed session of TLS 1.2, the certificate was verified at the first handshake only.
        if decoded.not_valid_after_utc.timestamp() * 1000 < now_ms:
            raise ValueError("it has expired")
        name = distinguished_name(decoded.subject.public_bytes())
        return f"User:{self._mapper.principal_name(name)}"
