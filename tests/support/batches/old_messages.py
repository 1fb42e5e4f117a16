"""Messages of formats before version 2."""

from __future__ import annotations

import struct
import zlib


def old_message(magic: int) -> bytes:
    """Return a message of the formats before 2: offset, size, CRC-32, magic, attributes, key, value."""
    timestamp = struct.pack(">q", 5) if magic else b""
    body = struct.pack(">bb", magic, 0) + timestamp + struct.pack(">i", -1) + struct.pack(">i", 2) + b"hi"
    return struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body
