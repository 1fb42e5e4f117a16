"""Files with tokens, assertions and keys.

I/O: reads files.
"""

from __future__ import annotations

from typing import Final

from tidelog.clients.security.oauthbearer.token_requests import TokenRetrievalError
from tidelog.security.credential_files import UnsuitableFileError, read_regular_file

BYTES_MAX: Final = 256 * 1024


def read_text(path: str) -> str:
    """Return the stripped UTF-8 text of a regular file. Raise TokenRetrievalError, which has no contents."""
    try:
        return read_regular_file(path, BYTES_MAX).decode().strip()
    except UnsuitableFileError:
        raise TokenRetrievalError(f"{path} is not a regular file of at most {BYTES_MAX} bytes") from None
    except UnicodeDecodeError:
        raise TokenRetrievalError(f"{path} cannot be read: no text") from None
    except OSError as error:
        raise TokenRetrievalError(f"{path} cannot be read: {error.strerror}") from None
