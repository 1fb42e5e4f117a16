"""The value of a large record that was encoded before the command that writes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.broker.coordinators.groups.outcome import Writes
from tidelog.broker.coordinators.groups.records.consumer_group_records import ConsumerGroupRecord
from tidelog.broker.coordinators.groups.records.coordinator_records import CoordinatorRecord, encode_record
from tidelog.broker.coordinators.groups.records.share_group_records import ShareGroupRecord
from tidelog.broker.coordinators.groups.records.typed_records import encode_value_in_steps
from tidelog.broker.coordinators.shared.encoded_records import EncodedRecord, EncodedRecords
from tidelog.protocol.schema import Message
from tidelog.protocol.steps import Steps


class PreparedRecord(NamedTuple):
    """A value that the next record of a member probably has, and its bytes."""

    value: Message
    encoded: bytes

    def writes(self, records: Sequence[CoordinatorRecord]) -> Writes:
        """Return the writes of `records`. The record with the prepared value is not encoded again."""
        return Writes(tuple(records), encoded=EncodedRecords(map(self._encode, records)))

    def _encode(self, record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
        if type(record.value) is not type(self.value) or record.value != self.value:
            return encode_record(record)
        return _encoded_key(record), self.encoded


def prepare_record(record: ConsumerGroupRecord | ShareGroupRecord) -> Steps[PreparedRecord]:
    """Encode the value of a record in steps."""
    assert record.value is not None, record.key
    return PreparedRecord(record.value, (yield from encode_value_in_steps(record.value)))


def encode_record_in_steps(record: ConsumerGroupRecord | ShareGroupRecord) -> Steps[EncodedRecord]:
    """Return key and value of a record in the format of the log."""
    prepared = yield from prepare_record(record)
    return _encoded_key(record), prepared.encoded


def _encoded_key(record: CoordinatorRecord) -> bytes:
    return encode_record(record._replace(value=None))[0]
