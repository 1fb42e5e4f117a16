"""The TLS of connections that this process opens: their context, which can be replaced."""

from __future__ import annotations

import ssl
from dataclasses import replace
from typing import NamedTuple

from tidelog.security.tls.file_versions import FileVersion, file_versions
from tidelog.security.tls.settings import TlsSettings


class ClientIdentity(NamedTuple):
    """The context of connections, with the settings and files of its origin.

    `any_host` does not verify host names, to test own certificates.
    """

    settings: TlsSettings
    files: tuple[FileVersion | None, ...]
    context: ssl.SSLContext
    any_host: ssl.SSLContext


def load_client_identity(settings: TlsSettings) -> ClientIdentity:
    """Return contexts of the present contents of the stores. I/O: reads files. Errors: ConfigError."""
    # Imported here: a node without TLS starts without the library for certificates.
    from tidelog.security.tls.contexts import client_context

    # Before the files are read, so that a change after the reading is detected later.
    files = file_versions(settings)
    any_host = client_context(replace(settings, verifies_host_name=False))
    return ClientIdentity(settings, files, client_context(settings), any_host)


class TlsClient:
    """Has the identity that is used for new connections; open connections keep theirs."""

    def __init__(self, identity: ClientIdentity) -> None:
        self.identity = identity

    def use(self, identity: ClientIdentity) -> None:
        """Use another identity for new connections."""
        self.identity = identity

    def context(self) -> ssl.SSLContext:
        """Return the context for the next connection."""
        return self.identity.context
