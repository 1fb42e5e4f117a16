"""Access to the metrics: TLS of the endpoint, and a bearer token (RFC 6750).

The certificates and the token are read again when their files change. If the new ones cannot be used, the
former ones stay in use, and the problem is logged once.

I/O: `load` and `refresh` read files; call them in a thread.
"""

from __future__ import annotations

import hmac
import logging
import ssl
from typing import Final

from tidelog.base.config_definition import ConfigError
from tidelog.base.dataclass import dataclass
from tidelog.security.credential_files import UnsuitableFileError, read_regular_file
from tidelog.security.tls.file_versions import file_versions
from tidelog.security.tls.server import ServerIdentity, load_server_identity
from tidelog.security.tls.settings import TlsSettings

logger = logging.getLogger(__name__)

TOKEN_FILE_KEY: Final = "metrics.token.file"
TOKEN_BYTES_MIN: Final = 16
TOKEN_BYTES_MAX: Final = 4096
_LINE_BREAK_BYTES_MAX: Final = 2
_SCHEME: Final = "bearer"


@dataclass(frozen=True, slots=True)
class MetricsAccess:
    """The requirements of the endpoint: TLS, unless `tls` is None; a token, unless `token_file` is None."""

    tls: TlsSettings | None = None
    token_file: str | None = None


class MetricsGuard:
    """Owns the current TLS context and token of the endpoint."""

    def __init__(self, access: MetricsAccess) -> None:
        self._access = access
        self._identity: ServerIdentity | None = None
        self._token: bytes | None = None
        self._problem: str | None = None

    @property
    def has_files(self) -> bool:
        """Whether a certificate or a token must be read."""
        return self._access != MetricsAccess()

    @property
    def context(self) -> ssl.SSLContext | None:
        """The context for the next connection; None without TLS."""
        return None if self._identity is None else self._identity.context

    def load(self) -> None:
        """Read certificates and token. Errors: ConfigError, without secrets."""
        tls, token_file = self._access.tls, self._access.token_file
        token = None if token_file is None else _read_token(token_file)
        if tls is not None and (self._identity is None or self._identity.files != file_versions(tls)):
            self._identity = load_server_identity(tls)
        self._token = token

    def refresh(self) -> None:
        """Read changed files; keep the former certificate and token if their contents cannot be used."""
        try:
            self.load()
        except ConfigError as error:
            if str(error) != self._problem:
                logger.warning(
                    "Cannot replace the certificate or the token of the metrics endpoint: %s; "
                    "keeping the former ones",
                    error,
                )
            self._problem = str(error)
        else:
            self._problem = None

    def is_allowed(self, authorization: str) -> bool:
        """Return whether the value of an Authorization header has the token, in constant time."""
        if self._token is None:
            return True
        scheme, _, token = authorization.strip().partition(" ")
        return scheme.lower() == _SCHEME and hmac.compare_digest(token.strip().encode(), self._token)


def _read_token(path: str) -> bytes:
    """Return the contents of the file without the white space around it. Errors: ConfigError."""
    allowed = f"allowed is a regular file with one word of {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} bytes"
    try:
        token = read_regular_file(path, TOKEN_BYTES_MAX + _LINE_BREAK_BYTES_MAX).strip()
    except UnsuitableFileError as error:
        raise ConfigError(TOKEN_FILE_KEY, path, f"{error}; {allowed}") from None
    except OSError as error:
        raise ConfigError(TOKEN_FILE_KEY, path, f"cannot read the file: {error.strerror}") from None
    if not TOKEN_BYTES_MIN <= len(token) <= TOKEN_BYTES_MAX or len(token.split()) != 1:
        raise ConfigError(TOKEN_FILE_KEY, path, allowed)
    return token
