"""Key updates of TLS 1.3, which Python's ssl module cannot send.

Source: RFC 8446, sections 4.6.3, 5.3 and 7.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

SUITE: Final = "TLS_AES_256_GCM_SHA384"
_KEY_BYTES: Final = 32
_IV_BYTES: Final = 12
_TAG_BYTES: Final = 16
_APPLICATION_DATA: Final = b"\x17\x03\x03"
_KEY_UPDATE: Final = b"\x18\x00\x00\x01\x00" + b"\x16"
"""The message and, as the last byte of a record's contents, its type."""


def client_secret(key_log: Path) -> bytes:
    """Return the first secret for the client's data from the file of `SSLContext.keylog_filename`."""
    for line in key_log.read_text().splitlines():
        if line.startswith("CLIENT_TRAFFIC_SECRET_0 "):
            return bytes.fromhex(line.split()[2])
    raise AssertionError(f"{key_log} has no secret")


def key_updates(secret: bytes, count: int) -> bytes:
    """Return `count` records of a client that has sent no data yet and uses the cipher suite SUITE."""
    records = []
    for _ in range(count):
        key, iv = _derive(secret, b"key", _KEY_BYTES), _derive(secret, b"iv", _IV_BYTES)
        header = _APPLICATION_DATA + struct.pack(">H", len(_KEY_UPDATE) + _TAG_BYTES)
        records.append(header + AESGCM(key).encrypt(iv, _KEY_UPDATE, header))
        secret = _derive(secret, b"traffic upd", SHA384.digest_size)
    return b"".join(records)


def _derive(secret: bytes, label: bytes, size: int) -> bytes:
    name = b"tls13 " + label
    information = struct.pack(">HB", size, len(name)) + name + b"\0"
    return HKDFExpand(SHA384(), size, information).derive(secret)
