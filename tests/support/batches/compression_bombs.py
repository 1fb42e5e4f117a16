"""Decompression bombs for each codec, built without allocating their content."""

from __future__ import annotations

import struct
import zlib

import cramjam

from tidelog.protocol.compression import Compression

MEBIBYTE = 1 << 20
_SNAPPY_FRAMING = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def compression_bomb(codec: Compression, mebibytes: int) -> bytes:
    """Return `mebibytes` MiB of zeros in `codec`, with no declared size where the codec allows it."""
    zeros = bytes(MEBIBYTE)
    if codec is Compression.GZIP:
        deflater = zlib.compressobj(9, zlib.DEFLATED, 31)
        return b"".join([deflater.compress(zeros) for _ in range(mebibytes)]) + deflater.flush()
    if codec is Compression.SNAPPY:
        block = bytes(cramjam.snappy.compress_raw(zeros))
        return _SNAPPY_FRAMING + (struct.pack(">i", len(block)) + block) * mebibytes
    if codec is Compression.LZ4:
        # A frame of equal blocks of 64 KiB: repeat the block of a shorter frame.
        frame = cramjam.lz4.Compressor(block_linked=False, content_checksum=False)
        frame.compress(bytes(65536))
        data = bytes(frame.finish())
        return data[:7] + data[7:-4] * (16 * mebibytes) + data[-4:]
    assert codec is Compression.ZSTD
    return bytes(cramjam.zstd.compress(zeros)) * mebibytes


def zstd_frame_that_declares(size: int) -> bytes:
    """Return a zstd frame of 1 MiB of zeros whose header declares `size` bytes."""
    frame = bytes(cramjam.zstd.compress(bytes(MEBIBYTE)))
    assert frame[4] >> 6 == 2 and frame[4] & 0x20, "the size must be in the four bytes after the descriptor"
    return frame[:5] + struct.pack("<I", size) + frame[9:]


def zstd_frame_with_window(window_log: int) -> bytes:
    """Return a zstd frame of 1 MiB of zeros with a window of 2**window_log bytes and no declared size."""
    frame = bytes(cramjam.zstd.compress(bytes(MEBIBYTE)))
    checksum_flag = frame[4] & 0x04
    return frame[:4] + bytes([checksum_flag, (window_log - 10) << 3]) + frame[9:]


def snappy_block_that_declares(size: int) -> bytes:
    """Return a snappy block of three letters that declares `size` bytes."""
    prefix = bytearray()
    while size > 0x7F:
        prefix.append(size & 0x7F | 0x80)
        size >>= 7
    prefix.append(size)
    return bytes(prefix) + b"\x08abc"
