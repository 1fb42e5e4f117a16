"""Records of the internal topics equal the bytes of Apache Kafka 4.3.1."""

from __future__ import annotations

import pytest

from tests.support.messages.all_messages import other_messages, versions_of
from tests.support.messages.recorded_messages import message_from_json, read_golden_records
from tests.support.messages.uncovered_records import UNCOVERED_RECORDS
from tests.support.paths import GOLDEN_FILES
from tidelog.protocol.codec import decode, encode
from tidelog.protocol.schema import Message

GOLDEN = read_golden_records(GOLDEN_FILES / "protocol" / "kafka_records.jsonl")
RECORDS = [cls for cls in other_messages() if cls.__name__ in {line.record for line in GOLDEN}]


@pytest.mark.parametrize("cls", RECORDS, ids=lambda cls: cls.__name__)
def test_records_of_internal_topics_equal_kafkas_bytes(cls: type[Message]) -> None:
    lines = [line for line in GOLDEN if line.record == cls.__name__]
    for line in lines:
        message = message_from_json(cls, line.values)
        assert encode(message, line.version) == line.data, f"version {line.version}: {message}"
        assert decode(cls, line.data, line.version) == message, f"version {line.version}: {message}"
    assert {line.version for line in lines} == set(versions_of(cls))


def test_golden_bytes_cover_every_record_missing_in_kio() -> None:
    assert {cls.__name__ for cls in RECORDS} == {
        name for names in UNCOVERED_RECORDS.values() for name in names
    }
