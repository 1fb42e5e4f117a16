"""zstd frames of segment objects: the content size is in the header, a checksum at the end.

Aiven's plugin uses the same buckets and allocates its buffers by the content size, so it is required. The
plugin writes no checksum, but its decoder verifies the checksums that are written here.
"""

from __future__ import annotations

import threading
from typing import Final

import zstandard

from tidelog.remote.objects.layout.pieces import Buffer

LEVEL: Final = 3
_contexts = threading.local()


class BadFrame(ValueError):
    """The data is not a zstd frame, or its content does not match its header."""


def compress(data: Buffer, *, checksum: bool = True) -> bytes:
    """Return one frame that contains `data`."""
    return zstandard.ZstdCompressor(level=LEVEL, write_checksum=checksum).compress(data)


def decompress(frame: Buffer, size_max: int) -> bytes:
    """Return the content of `frame`.

    Errors: BadFrame for a damaged frame, a frame without a content size, or with one above `size_max`.
    """
    try:
        size = zstandard.frame_content_size(frame)
        if not 0 <= size <= size_max:
            raise BadFrame(f"the content size of the frame is {size} bytes; allowed are {size_max}")
        return _decompressor().decompress(frame, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise BadFrame(str(error)) from error


def _decompressor() -> zstandard.ZstdDecompressor:
    # One for each thread: its creation costs as much as a small chunk, and it must not be shared.
    context: zstandard.ZstdDecompressor | None = getattr(_contexts, "decompressor", None)
    if context is None:
        context = _contexts.decompressor = zstandard.ZstdDecompressor()
    return context
