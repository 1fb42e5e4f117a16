"""Provides free memory for files before a load that writes.

A virtual machine may return free memory to its host within seconds. A page that the host provides again costs
about 11 us, an available page less than 1 us. Without this module, the figures of a server that writes files
would depend on the host. On a machine in production, the memory is in use.
"""

from __future__ import annotations

import os
import tempfile
from typing import Final

MEBIBYTE: Final = 1024 * 1024
FILE_MEBIBYTES_MAX: Final = 2 * 1024
MEMORY_SHARE: Final = 1 / 8
_TIMES: Final = 2


def touch_file_memory() -> None:
    """Fill a file of up to 2 GiB, an eighth of the memory, and remove it, twice: files use its pages next."""
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    pieces = min(FILE_MEBIBYTES_MAX, int(memory_bytes * MEMORY_SHARE) // MEBIBYTE)
    piece = bytes(MEBIBYTE)
    for _ in range(_TIMES):
        with tempfile.TemporaryFile(buffering=0) as file:
            for _ in range(pieces):
                file.write(piece)
