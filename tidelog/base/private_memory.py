"""Memory of many megabytes, outside of the heap: the system has all of it again when it is released.

The heap keeps a freed block for the next one, and the end of a large block can leave a gap in it. Linux gives
a mapping its pages when they are written to, and extends it without a copy.
"""

from __future__ import annotations

import mmap


def private_mapping(size_bytes: int) -> mmap.mmap:
    """Return an anonymous mapping that no other process sees; it ends with its last view."""
    return mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
