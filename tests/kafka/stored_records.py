"""The records of groups in the log of a broker."""

from __future__ import annotations

from tidelog.broker.coordinators.groups.records.coordinator_records import decode_record, encode_record
from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.record import read_records


def record_kinds(log: bytes, record_type: type) -> set[str]:
    """Return the kinds of records of one type in a log, each of which is encoded as in the log."""
    kinds = set()
    for position, header in iterate_headers(log):
        for stored in read_records(log, position, header):
            record = decode_record(stored.key, stored.value)
            if isinstance(record, record_type):
                assert encode_record(record) == (stored.key, stored.value)
                kinds.add(type(record.key).__name__ + ("" if record.value else " deleted"))
    return kinds
