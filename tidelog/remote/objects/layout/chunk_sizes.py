"""The sizes of a segment's transformed chunks, packed for the manifest.

    count 4, base 4, width 1, (count - 1) x (size - base) of `width` bytes, last size 4; big endian
    count 4, size 4    for one chunk
    count 4            without chunks

The base is the smallest size except the last, which may be much smaller and is stored as it is. In the
manifest, the packed sizes are a zstd frame (content size in its header) in base64.

Source: ChunkSizesBinaryCodec, TransformedChunksSerializer and -Deserializer of Aiven's RemoteStorageManager.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Final

from tidelog.protocol.errors import DecodeError
from tidelog.remote.objects.layout.zstd_frames import BadFrame, compress, decompress

PACKED_BYTES_MAX: Final = 10 * 1024 * 1024
"""The maximum packed size before compression, of writes and reads."""


def pack_chunk_sizes(sizes: Sequence[int]) -> bytes:
    """Return `sizes` in the layout above; each is from 0 to 2**31 - 1."""
    assert all(0 <= size < 1 << 31 for size in sizes), sizes
    count = len(sizes).to_bytes(4, "big")
    if not sizes:
        return count
    last = sizes[-1].to_bytes(4, "big")
    if len(sizes) == 1:
        return count + last
    base = min(sizes[:-1])
    width = max(1, ((max(sizes[:-1]) - base).bit_length() + 7) // 8)
    differences = b"".join((size - base).to_bytes(width, "big") for size in sizes[:-1])
    return count + base.to_bytes(4, "big") + width.to_bytes(1, "big") + differences + last


def unpack_chunk_sizes(packed: bytes) -> list[int]:
    """Return the sizes in `packed`. Errors: DecodeError if its length does not match its header."""
    count = int.from_bytes(packed[:4], "big")
    if count == 0:
        return []
    if count == 1:
        return [_last(packed, 4)]
    base = int.from_bytes(packed[4:8], "big")
    width = packed[8] if len(packed) > 8 else 0
    end = 9 + (count - 1) * width
    if not 1 <= width <= 4 or end > len(packed):
        raise DecodeError(f"{count} chunk sizes of {width} bytes do not fit into {len(packed)} bytes")
    sizes = [base + int.from_bytes(packed[at : at + width], "big") for at in range(9, end, width)]
    sizes.append(_last(packed, end))
    return sizes


def chunk_sizes_text(sizes: Sequence[int]) -> str:
    """Return `sizes` in the form of the manifest."""
    packed = pack_chunk_sizes(sizes)
    assert len(packed) <= PACKED_BYTES_MAX, len(packed)
    return base64.b64encode(compress(packed, checksum=False)).decode()


def chunk_sizes_from_text(text: str) -> list[int]:
    """Return the sizes in the manifest's text. Errors: DecodeError if it is damaged."""
    try:
        return unpack_chunk_sizes(decompress(base64.b64decode(text, validate=True), PACKED_BYTES_MAX))
    except (binascii.Error, BadFrame) as error:
        raise DecodeError(f"cannot read the sizes of transformed chunks: {error}") from error


def _last(packed: bytes, position: int) -> int:
    if len(packed) < position + 4:
        raise DecodeError(f"chunk sizes end within the last size: {len(packed)} bytes")
    return int.from_bytes(packed[position : position + 4], "big")
