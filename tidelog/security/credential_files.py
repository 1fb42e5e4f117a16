"""Reads files with credentials: tokens, assertions, private keys, and key sets of identity providers.

I/O: reads files.
"""

from __future__ import annotations

from pathlib import Path


class UnsuitableFileError(ValueError):
    """A file is not a regular file, or is larger than allowed; the text has neither its path nor contents."""


def read_regular_file(path: str, bytes_max: int) -> bytes:
    """Return the contents of a regular file of at most `bytes_max` bytes.

    A pipe or a device is rejected before it is opened, because reading it could block forever.
    Errors: UnsuitableFileError, also for a file that does not exist; OSError if it cannot be read.
    """
    file = Path(path)
    if not file.is_file():
        raise UnsuitableFileError("no regular file")
    with file.open("rb") as stream:
        contents = stream.read(bytes_max + 1)
    if len(contents) > bytes_max:
        raise UnsuitableFileError(f"more than {bytes_max} bytes")
    return contents
