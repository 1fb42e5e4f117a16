"""What a member finds in the result of a partition of a ShareFetch."""

from __future__ import annotations

from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.messages.share_fetch import PartitionData
from tidelog.protocol.record import Record, read_records


def values(result: PartitionData) -> list[str]:
    """Return the values of the acquired records."""
    acquired = {
        offset for one in result.acquired_records for offset in range(one.first_offset, one.last_offset + 1)
    }
    return [
        record.value.decode()
        for record in records_of(result)
        if record.offset in acquired and record.value is not None
    ]


def records_of(result: PartitionData) -> list[Record]:
    """Return all records of a result, without markers of transactions."""
    assert result.records is not None
    records = memoryview(result.records)
    return [
        record
        for position, header in iterate_headers(records)
        if not header.is_control
        for record in read_records(records[position : position + header.size_bytes])
    ]


def ranges(result: PartitionData) -> list[tuple[int, int, int]]:
    """Return first offset, last offset and delivery count of the acquired ranges."""
    return [(one.first_offset, one.last_offset, one.delivery_count) for one in result.acquired_records]
