"""The compression codecs of record batches, with a bound on the size of decompressed data.

| number | name   | bytes |
|--------|--------|-------|
| 1      | gzip   | RFC 1952, one or more members |
| 2      | snappy | xerial framing: magic, two version numbers, blocks after an int32 size;
                    a single block without framing is read too |
| 3      | lz4    | LZ4 frame: independent blocks of 64 KiB, each with a checksum |
| 4      | zstd   | RFC 8878, one or more frames |

A batch of a few bytes may decompress to gigabytes. Therefore the caller passes a maximum to `decompress`,
which never allocates more than that, independently of the size that the data declares.

`decompress` and `compress` copy their results to bytes. `expand` and `compress_view` are for large data in a
thread: they do not copy, and other threads run while the codecs work.

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
# A copy element of three bytes results in at most 64 bytes, so no valid block exceeds this factor.
_SNAPPY_EXPANSION_MAX: Final = 22
_SIZE: Final = struct.Struct(">i")

_FIRST_GUESS_BYTES_MIN: Final = 4 * 1024
_FIRST_GUESS_EXPANSION: Final = 4
_GROWTH: Final = 4
# cramjam's message for a full output buffer; any other failure means damaged input.
_OUTPUT_FULL: Final = "failed to write whole buffer"


class BoundExceeded(DecodeError):
    """Compressed data that exceeds the caller's maximum when it is decompressed; it may be undamaged."""


class Compression(IntEnum):
    """The compression codec of a batch: the low three bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def from_name(cls, name: str) -> Compression:
        """Return the codec with the name that configs use, such as "zstd".

        Errors: ValueError for an unknown name.
        """
        try:
            return _BY_NAME[name]
        except KeyError:
            raise ValueError(f"compression {name!r} is not one of {', '.join(_BY_NAME)}") from None


_BY_NAME: Final = {codec.name.lower(): codec for codec in Compression}


def compress(codec: Compression, data: BytesLike, level: int | None = None) -> bytes:
    """Return `data` compressed with `codec`, in the format of Kafka's clients.

    `level` None is Kafka's default: gzip 6, the fast compressor of lz4, zstd 3. Kafka's ranges are gzip 1 to
    9, lz4 1 to 17, zstd -131072 to 22. Snappy has no levels and ignores it.
    """
    return bytes(compress_view(codec, data, level))


def compress_view(codec: Compression, data: BytesLike, level: int | None = None) -> memoryview:
    """Return what `compress` returns, without a copy of the result."""
    if codec is Compression.GZIP:
        return memoryview(cramjam.gzip.compress(data, level=6 if level is None else level))
    if codec is Compression.SNAPPY:
        return memoryview(_compress_snappy(data))
    if codec is Compression.LZ4:
        # Kafka rejects linked blocks, which `cramjam.lz4.compress` writes.
        frame = cramjam.lz4.Compressor(level=level or 0, content_checksum=False, block_linked=False)
        # In pieces, because it takes only bytes, and a copy of all data would block the other threads.
        view = memoryview(data)
        for start in range(0, len(view), _LZ4_PIECE_BYTES):
            frame.compress(bytes(view[start : start + _LZ4_PIECE_BYTES]))
        return memoryview(frame.finish())
    if codec is Compression.ZSTD:
        return memoryview(cramjam.zstd.compress(data, level=3 if level is None else level))
    return memoryview(data)


def decompress(codec: Compression, data: BytesLike, max_bytes: int) -> bytes:
    """Return `data` decompressed.

    Errors: BoundExceeded for a result of more than `max_bytes`; DecodeError for damaged data.
    """
    if codec is Compression.NONE:
        if len(data) > max_bytes:
            raise _too_large(codec, max_bytes)
        return bytes(data)
    if codec is Compression.SNAPPY:
        return _decompress_snappy(data, max_bytes)
    return _expand(codec, data, max_bytes)


def expand(codec: Compression, data: BytesLike, max_bytes: int) -> memoryview:
    """Return what `decompress` returns, without a copy; `codec` must not be NONE.

    The result is in an anonymous mapping of `max_bytes`, whose pages take memory only when they are written.
    """
    mapping = mmap.mmap(-1, max(max_bytes, 1))
    output = memoryview(mapping)
    try:
        return output[: _expand_into(output[:max_bytes], codec, data)]
    except DecodeError:
        # The error's traceback refers to this frame, so a stored error would keep the memory allocated.
        output.release()
        mapping.close()
        raise


def _expand_into(output: memoryview, codec: Compression, data: BytesLike) -> int:
    """Decompress `data` to the beginning of `output`; return the number of bytes written.

    Errors: as `decompress`; `output` is then released.
    """
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
    """Decompress to a buffer whose size is multiplied by four until the result fits or exceeds `max_bytes`.

    The codecs stop as soon as the buffer is full, so all failed attempts together take less than half the
    time of the successful one. The size that the data declares is not used.
    Memory: at most `max_bytes`, and the size of the result.
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
        # librdkafka writes a single block without framing.
        yield _decompress_snappy_block(view, max_bytes, max_bytes)
        return
    remaining = max_bytes
    position = 0
    while position < len(view):
        # Concatenated streams have a header between blocks.
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
            raise DecodeError(f"snappy block of {len(block)} bytes declares {size} decompressed bytes")
        if size > remaining:
            raise _too_large(Compression.SNAPPY, max_bytes)
        output = bytearray(size)
        written = cramjam.snappy.decompress_raw_into(block, output)
    except cramjam.DecompressionError as error:
        raise DecodeError(f"damaged snappy data: {error}") from error
    return bytes(output[:written])
