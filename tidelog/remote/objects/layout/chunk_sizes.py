"""The sizes of a segment's transformed chunks, packed for the manifest.

    count 4, base 4, width 1, (count - 1) x (size - base) of `width` bytes, last size 4; big endian
    count 4, size 4    when there is one
    count 4            when there is none

The base is the smallest of all but the last, which may be much smaller and stands in full. In the manifest
it is a zstd frame (content size in its header) in base64.

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
"""Bytes before compression; more is neither written nor read."""


def pack_chunk_sizes(sizes: Sequence[int]) -> bytes:
    """`sizes` in the layout above; each is 0 to 2**31 - 1."""
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
    """The sizes in `packed`; DecodeError when its length is not what its head says."""
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
    """`sizes` as the manifest has them."""
    packed = pack_chunk_sizes(sizes)
    assert len(packed) <= PACKED_BYTES_MAX, len(packed)
    return base64.b64encode(compress(packed, checksum=False)).decode()


def chunk_sizes_from_text(text: str) -> list[int]:
    """The sizes in the manifest's text; DecodeError when it is damaged."""
    try:
        return unpack_chunk_sizes(decompress(base64.b64decode(text, validate=True), PACKED_BYTES_MAX))
    except (binascii.Error, BadFrame) as error:
        raise DecodeError(f"the sizes of transformed chunks cannot be read: {error}") from error


def _last(packed: bytes, position: int) -> int:
    if len(packed) < position + 4:
        raise DecodeError(f"chunk sizes end within the last size: {len(packed)} bytes")
    return int.from_bytes(packed[position : position + 4], "big")
