"""zstd frames as segment objects have them: the content size in the head, a checksum at the end.

The plugin whose buckets we share sizes its buffers by the head, so it must be there; it writes no checksum,
but its decoder checks ours.
"""

from __future__ import annotations

import threading
from typing import Final

import zstandard

from tidelog.remote.objects.layout.pieces import Buffer

LEVEL: Final = 3
_contexts = threading.local()


class BadFrame(ValueError):
    """Not a zstd frame, or one whose content is not what it says."""


def compress(data: Buffer, *, checksum: bool = True) -> bytes:
    """One frame that holds `data`."""
    return zstandard.ZstdCompressor(level=LEVEL, write_checksum=checksum).compress(data)


def decompress(frame: Buffer, size_max: int) -> bytes:
    """What `frame` holds; BadFrame when damaged, without a content size, or with one above `size_max`."""
    try:
        size = zstandard.frame_content_size(frame)
        if not 0 <= size <= size_max:
            raise BadFrame(f"the frame says {size} bytes, allowed are {size_max}")
        return _decompressor().decompress(frame, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise BadFrame(str(error)) from error


def _decompressor() -> zstandard.ZstdDecompressor:
    # One for each thread: making one costs as much as a small chunk, and they are not to be shared.
    context: zstandard.ZstdDecompressor | None = getattr(_contexts, "decompressor", None)
    if context is None:
        context = _contexts.decompressor = zstandard.ZstdDecompressor()
    return context
