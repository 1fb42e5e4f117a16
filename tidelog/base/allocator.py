"""A setting of the memory allocator for processes that allocate and free megabytes again and again.

By default glibc returns freed memory to the operating system if there is more than a few megabytes of it, and
each thread has an area of its own. The next allocation then gets new pages, and the kernel zeroes each of
them: for a chunk of a remote segment this takes longer than the copy of its bytes. The areas of several
threads also keep more memory than one.

Other allocators, such as those of musl and macOS, are not changed.
"""

from __future__ import annotations

import sys
from typing import Final

_KEPT_BYTES: Final = 32 * 1024 * 1024
"""Freed memory at the end of the area that is kept. It is also the maximum for the other limit: larger blocks
are always returned when they are freed."""
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8


def keep_freed_memory() -> bool:
    """Let this process use freed memory again; return whether its allocator supports it.

    To be called before threads start, as they choose their area when they first allocate.
    """
    if sys.platform != "linux":
        return False
    import ctypes  # most processes do not need it

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    settings = ((_M_ARENA_MAX, 1), (_M_MMAP_THRESHOLD, _KEPT_BYTES), (_M_TRIM_THRESHOLD, _KEPT_BYTES))
    return all(mallopt(key, value) == 1 for key, value in settings)
