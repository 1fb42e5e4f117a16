"""The expanded records of a batch that is compacted, within bounds."""

from __future__ import annotations

from typing import Final

from tidelog.protocol.batch import BATCH_OVERHEAD
from tidelog.protocol.compression import BytesLike, Compression
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.record import DEFAULT_MAX_DECOMPRESSED_BYTES, RECORD_BYTES_MIN, read_payload
from tidelog.storage.log.record_bounds import RECORDS_MAX
from tidelog.storage.segment.batch_scan import CheckedBatch

EXPANDED_BYTES_MAX: Final = DEFAULT_MAX_DECOMPRESSED_BYTES


def expanded(batch: CheckedBatch) -> BytesLike:
    """Return the expanded records of a batch; a view if they are not compressed.

    Errors: DecodeError for records that cannot be expanded, that expand beyond EXPANDED_BYTES_MAX, or that
    are more than RECORDS_MAX: columns take many times their bytes.
    """
    header = batch.header
    if header.record_count > RECORDS_MAX:
        raise DecodeError(
            f"{header.record_count} records in the batch at offset {header.base_offset}, "
            f"at most {RECORDS_MAX} are compacted"
        )
    if header.compression is not Compression.NONE:
        return read_payload(batch.data, 0, header, EXPANDED_BYTES_MAX)
    payload = batch.data[BATCH_OVERHEAD:]
    if header.record_count * RECORD_BYTES_MIN > len(payload):
        raise DecodeError(
            f"{header.record_count} records of the batch at offset {header.base_offset} "
            f"do not fit in {len(payload)} bytes"
        )
    return payload
