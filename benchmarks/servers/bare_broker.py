"""A minimal Produce implementation in Python: the lower bound of the CPU time per request.

    python -m benchmarks.servers.bare_broker

It parses Produce version 9, checks the CRC-32C, sets offset and epoch, appends to a file and responds. It has
no topics, producers, index, validation, errors or metrics. As it is measured in the same run as the broker,
it shows how much a figure depends on the present state of the machine.
"""

from __future__ import annotations

import os
import struct
import tempfile
from typing import Final

from crc32c import crc32c

from benchmarks.servers.framed import serve
from tidelog.protocol.primitives import read_unsigned_varint

_BATCH_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_OFFSET: Final = struct.Struct(">q")
_EPOCH: Final = struct.Struct(">i")
_ACKS_TIMEOUT_TOPICS: Final = struct.Struct(">hib")
_HEAD: Final = struct.Struct(">iiBB")
_RESULT: Final = struct.Struct(">ihqqqBBB")
_CLIENT_ID_AT: Final = 8
_CRC_FROM: Final = 21


class BareBroker:
    """Stores one file per partition index, independent of the topic."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._files: dict[int, int] = {}
        self._next_offsets: dict[int, int] = {}

    def handle(self, frame: memoryview) -> bytes:
        """Append the records of a Produce request; return the frame of its response."""
        correlation_id = int.from_bytes(frame[4:8], "big")
        at = _CLIENT_ID_AT + 2 + int.from_bytes(frame[_CLIENT_ID_AT : _CLIENT_ID_AT + 2], "big")
        at += 2  # no tagged fields, no transactional id
        at += _ACKS_TIMEOUT_TOPICS.size
        name_end = at + frame[at]
        topic = bytes(frame[at:name_end])
        count, at = frame[name_end] - 1, name_end + 1
        results = []
        for _ in range(count):
            index = int.from_bytes(frame[at : at + 4], "big")
            length, at = read_unsigned_varint(frame, at + 4)
            end = at + length - 1
            results.append(_RESULT.pack(index, 0, self._append(index, frame[at:end]), -1, 0, 1, 0, 0))
            at = end + 1
        body = topic + bytes([count + 1]) + b"".join(results) + b"\0\0\0\0\0\0"
        return _HEAD.pack(_HEAD.size - 4 + len(body), correlation_id, 0, 2) + body

    def end_offset(self, index: int) -> int:
        """Return the log end offset of a partition."""
        return self._next_offsets.get(index, 0)

    def _append(self, index: int, records: memoryview) -> int:
        header = _BATCH_HEADER.unpack_from(records)
        if crc32c(records[_CRC_FROM:]) != header[4]:
            raise ValueError(f"checksum {header[4]:#010x} is wrong")
        offset = self.end_offset(index)
        _OFFSET.pack_into(records, 0, offset)
        _EPOCH.pack_into(records, 12, 0)
        file = self._files.get(index)
        if file is None:
            path = f"{self._directory}/{index}.log"
            file = self._files[index] = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        os.write(file, records)
        self._next_offsets[index] = offset + header[6] + 1
        return offset


def main() -> None:
    """Serve until SIGTERM."""
    with tempfile.TemporaryDirectory(prefix="tidelog-bare-") as directory:
        serve(BareBroker(directory).handle)


if __name__ == "__main__":
    main()
