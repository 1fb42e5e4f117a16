"""The compression codecs of record batches; decompression is bounded.

| number | name   | bytes |
|--------|--------|-------|
| 1      | gzip   | RFC 1952, one or more members |
| 2      | snappy | xerial framing: magic, two version numbers, blocks after an int32 size;
                    a single block without framing is read too |
| 3      | lz4    | LZ4 frame: independent blocks of 64 KiB, each with a checksum |
| 4      | zstd   | RFC 8878, one or more frames |

A batch of a few bytes can claim to expand to gigabytes, so `decompress` has a bound in bytes
and never allocates more, regardless of the sizes that the data declares.

`decompress` and `compress` return bytes, and so copy their results. `expand` and `compress_view` are for
large data in a thread: they copy nothing, and other threads run while the codecs work.

Source: org.apache.kafka.common.compress of Apache Kafka; KIP-110 (zstd), KIP-390 (levels).
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Final, TypeAlias

import cramjam

from tidelog.protocol.errors import DecodeError

BytesLike: TypeAlias = bytes | bytearray | memoryview

_SNAPPY_MAGIC: Final = b"\x82SNAPPY\x00"
_SNAPPY_HEADER: Final = _SNAPPY_MAGIC + struct.pack(">ii", 1, 1)
_SNAPPY_BLOCK_BYTES: Final = 32 * 1024
_LZ4_PIECE_BYTES: Final = 64 * 1024
# A copy element of three bytes yields at most 64, so no valid block expands more than this.
_SNAPPY_EXPANSION_MAX: Final = 22
_SIZE: Final = struct.Struct(">i")

_FIRST_GUESS_BYTES_MIN: Final = 4 * 1024
_FIRST_GUESS_EXPANSION: Final = 4
_GROWTH: Final = 4
# The message of cramjam for a full output buffer; any other failure means damaged input.
_OUTPUT_FULL: Final = "failed to write whole buffer"


class BoundExceeded(DecodeError):
    """The decompressed data exceeds the caller's bound; it may be valid."""


class Compression(IntEnum):
    """How the records of a batch are compressed: the low three bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def from_name(cls, name: str) -> Compression:
        """Return the codec with this name in configs, such as "zstd". Errors: ValueError if it is unknown."""
        try:
            return _BY_NAME[name]
        except KeyError:
            raise ValueError(f"compression {name!r} is none of {', '.join(_BY_NAME)}") from None


_BY_NAME: Final = {codec.name.lower(): codec for codec in Compression}


def compress(codec: Compression, data: BytesLike, level: int | None = None) -> bytes:
    """Return the bytes of `data` in `codec`, as Kafka's clients write and read them.

    `level` None means Kafka's default: gzip 6, lz4 its fast compressor, zstd 3. Kafka's
    ranges are gzip 1-9, lz4 1-17, zstd -131072-22; snappy has no levels and ignores it.
    """
    return bytes(compress_view(codec, data, level))


def compress_view(codec: Compression, data: BytesLike, level: int | None = None) -> memoryview:
    """Return what `compress` does, without a copy of the result."""
    if codec is Compression.GZIP:
        return memoryview(cramjam.gzip.compress(data, level=6 if level is None else level))
    if codec is Compression.SNAPPY:
        return memoryview(_compress_snappy(data))
    if codec is Compression.LZ4:
        # Kafka's reader refuses linked blocks, which are what cramjam's one-call form writes.
        frame = cramjam.lz4.Compressor(level=level or 0, content_checksum=False, block_linked=False)
        # In pieces, because it accepts only bytes: a copy of all data would block the other threads.
        view = memoryview(data)
        for start in range(0, len(view), _LZ4_PIECE_BYTES):
            frame.compress(bytes(view[start : start + _LZ4_PIECE_BYTES]))
        return memoryview(frame.finish())
    if codec is Compression.ZSTD:
        return memoryview(cramjam.zstd.compress(data, level=3 if level is None else level))
    return memoryview(data)


def decompress(codec: Compression, data: BytesLike, max_bytes: int) -> bytes:
    """Return `data` decompressed; DecodeError if it is damaged, BoundExceeded over `max_bytes`."""
    if codec is Compression.NONE:
        if len(data) > max_bytes:
            raise _too_large(codec, max_bytes)
        return bytes(data)
    if codec is Compression.SNAPPY:
        return _decompress_snappy(data, max_bytes)
    return _expand(codec, data, max_bytes)


def expand(codec: Compression, data: BytesLike, max_bytes: int) -> memoryview:
    """Return what `decompress` does, without a copy; for data in any codec but NONE.

    The memory is an anonymous mapping, whose pages use no memory until they are written.
    """
    mapping = mmap.mmap(-1, max(max_bytes, 1))
    output = memoryview(mapping)
    try:
        return output[: _expand_into(output[:max_bytes], codec, data)]
    except DecodeError:
        # The error's traceback refers to this frame; an error that is kept must not keep the memory.
        output.release()
        mapping.close()
        raise


def _expand_into(output: memoryview, codec: Compression, data: BytesLike) -> int:
    """Fill the beginning of `output`, release it if that fails, and return the number of bytes written."""
    try:
        if codec is not Compression.SNAPPY:
            return _EXPANDERS[codec](data, output)
        written = 0
        for part in _snappy_parts(data, len(output)):
            output[written : written + len(part)] = part
            written += len(part)
        return written
    except DecodeError:
        output.release()
        raise
    except cramjam.DecompressionError as error:
        max_bytes = len(output)
        output.release()
        if str(error) == _OUTPUT_FULL:
            raise _too_large(codec, max_bytes) from None
        raise DecodeError(f"damaged {codec.name.lower()} data: {error}") from error


def _too_large(codec: Compression, max_bytes: int) -> DecodeError:
    return BoundExceeded(f"{codec.name.lower()} data expands to more than {max_bytes} bytes")


_EXPANDERS: Final[dict[Compression, Callable[[BytesLike, bytearray | memoryview], int]]] = {
    Compression.GZIP: cramjam.gzip.decompress_into,
    Compression.LZ4: cramjam.lz4.decompress_into,
    Compression.ZSTD: cramjam.zstd.decompress_into,
}


def _expand(codec: Compression, data: BytesLike, max_bytes: int) -> bytes:
    """Decompress into a buffer that grows fourfold until the data fits or the bound is exceeded.

    The codecs stop as soon as their output is full, so all the failed attempts together cost
    less than half of the one that succeeds. Sizes that the data declares are not used.
    Memory: up to `max_bytes` for the buffer, and the size of the result once more.
    """
    expander = _EXPANDERS[codec]
    guess = max(len(data) * _FIRST_GUESS_EXPANSION, _FIRST_GUESS_BYTES_MIN)
    while True:
        output = bytearray(min(guess, max_bytes))
        try:
            written = expander(data, output)
        except cramjam.DecompressionError as error:
            if str(error) != _OUTPUT_FULL:
                raise DecodeError(f"damaged {codec.name.lower()} data: {error}") from error
        else:
            with memoryview(output) as view:
                return bytes(view[:written])
        if guess >= max_bytes:
            raise _too_large(codec, max_bytes)
        # Release the smaller buffer before a larger one is allocated.
        del output
        guess *= _GROWTH


def _compress_snappy(data: BytesLike) -> bytes:
    parts = [_SNAPPY_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _SNAPPY_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _SNAPPY_BLOCK_BYTES]))
        parts.append(_SIZE.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _decompress_snappy(data: BytesLike, max_bytes: int) -> bytes:
    return b"".join(_snappy_parts(data, max_bytes))


def _snappy_parts(data: BytesLike, max_bytes: int) -> Iterator[bytes]:
    view = memoryview(data)
    if bytes(view[: len(_SNAPPY_MAGIC)]) != _SNAPPY_MAGIC:
        # librdkafka writes a single block without any framing.
        yield _decompress_snappy_block(view, max_bytes, max_bytes)
        return
    remaining = max_bytes
    position = 0
    while position < len(view):
        # Streams that were joined together repeat the header between blocks.
        if bytes(view[position : position + len(_SNAPPY_MAGIC)]) == _SNAPPY_MAGIC:
            position += len(_SNAPPY_HEADER)
            if position > len(view):
                raise DecodeError("snappy data ends within its header")
            continue
        start = position + _SIZE.size
        if start > len(view):
            raise DecodeError("snappy data ends within a block size")
        size: int = _SIZE.unpack_from(view, position)[0]
        if not 0 < size <= len(view) - start:
            raise DecodeError(f"snappy block of {size} bytes at {start} of {len(view)}")
        position = start + size
        part = _decompress_snappy_block(view[start:position], remaining, max_bytes)
        remaining -= len(part)
        yield part


def _decompress_snappy_block(block: memoryview, remaining: int, max_bytes: int) -> bytes:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > len(block) * _SNAPPY_EXPANSION_MAX:
            raise DecodeError(f"snappy block of {len(block)} bytes claims to hold {size}")
        if size > remaining:
            raise _too_large(Compression.SNAPPY, max_bytes)
        output = bytearray(size)
        written = cramjam.snappy.decompress_raw_into(block, output)
    except cramjam.DecompressionError as error:
        raise DecodeError(f"damaged snappy data: {error}") from error
    return bytes(output[:written])
