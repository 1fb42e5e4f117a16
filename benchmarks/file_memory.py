"""Memory for files that the machine has at hand, before a load that writes.

A virtual machine may give memory that is free back to its host within seconds, and a page that comes from
there again costs some 11 us where one at hand costs less than 1: a server that writes files would be
measured by its host, beside one that keeps a few MiB in memory. A machine that serves has its memory in use.
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
    """Fill a file of up to 2 GiB, an eighth of the memory, and remove it, twice: files get its pages next."""
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    pieces = min(FILE_MEBIBYTES_MAX, int(memory_bytes * MEMORY_SHARE) // MEBIBYTE)
    piece = bytes(MEBIBYTE)
    for _ in range(_TIMES):
        with tempfile.TemporaryFile(buffering=0) as file:
            for _ in range(pieces):
                file.write(piece)
