"""The marker that ends a transaction in a partition: the only record of a control batch.

| part | bytes | field |
|---|---|---|
| key | 2 | version, int16 |
| key | 2 | type, int16: 0 abort, 1 commit |
| value | 2 | version, int16 |
| value | 4 | coordinator epoch, int32 |

Newer versions only add bytes at the end. Source: KIP-98, EndTransactionMarker of Apache Kafka 4.3.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from tidelog.protocol.batch import BatchHeader
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.record import read_records

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_ABORT: Final = 0
_COMMIT: Final = 1
# A marker takes about ten bytes; the bound protects against a compressed batch with other content.
_MARKER_BYTES_MAX: Final = 4096


class EndTransactionMarker(NamedTuple):
    """How a coordinator ended a transaction; `timestamp` is that of the record, in ms."""

    is_abort: bool
    coordinator_epoch: int
    timestamp: int


def read_end_transaction_marker(
    buffer: bytes | bytearray | memoryview, position: int, header: BatchHeader
) -> EndTransactionMarker | None:
    """Return the marker in the control batch at `position`; None if compaction has emptied the batch.

    Errors: DecodeError for a record that is not a transaction marker.
    """
    records = read_records(buffer, position, header, max_decompressed_bytes=_MARKER_BYTES_MAX)
    if not records:
        return None
    record = records[0]
    key, value = record.key or b"", record.value or b""
    if len(key) < _KEY.size or len(value) < _VALUE.size:
        raise DecodeError(
            f"control record at offset {record.offset} has a key of {len(key)} and a value of "
            f"{len(value)} bytes; a transaction marker has at least {_KEY.size} and {_VALUE.size}"
        )
    kind = _KEY.unpack_from(key)[1]
    if kind not in (_ABORT, _COMMIT):
        raise DecodeError(
            f"control record at offset {record.offset} has type {kind}; "
            f"a transaction marker has {_ABORT} (abort) or {_COMMIT} (commit)"
        )
    return EndTransactionMarker(kind == _ABORT, _VALUE.unpack_from(value)[1], record.timestamp)
