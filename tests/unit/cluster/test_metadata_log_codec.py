"""Metadata records in Kafka's bytes: a log of Apache Kafka 4.3.1, and invalid bytes."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.paths import GOLDEN_FILES
from tidelog.cluster.metadata_log_codec import RECORD_TYPES, decode_record, encode_record
from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.metadata_records.feature_level_record import FeatureLevelRecord
from tidelog.protocol.metadata_records.topic_record import TopicRecord
from tidelog.protocol.record import read_records

GOLDEN = GOLDEN_FILES / "cluster"


def kafkas_values() -> list[bytes]:
    data = (GOLDEN / "metadata-4.3.1.log").read_bytes()
    return [
        record.value or b""
        for position, header in iterate_headers(data)
        if not header.is_control
        for record in read_records(data, position, header)
    ]


def kafkas_names() -> list[str]:
    """Return the record types that kafka-dump-log printed for the log."""
    lines = (GOLDEN / "metadata-4.3.1.jsonl").read_text().splitlines()
    return [json.loads(line)["type"] for line in lines]


def upper_snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()


def test_every_record_of_kafkas_log_decodes_to_its_type() -> None:
    ours = [upper_snake_case(type(decode_record(value)).__name__) for value in kafkas_values()]
    assert [name for name in ours if name != "NO_OP_RECORD"] == kafkas_names()


def test_every_record_of_kafkas_log_encodes_to_the_same_bytes() -> None:
    for value in kafkas_values():
        assert encode_record(decode_record(value)) == value


def test_a_record_begins_with_frame_version_type_and_version() -> None:
    value = encode_record(FeatureLevelRecord(name="metadata.version", feature_level=30))
    assert value[:3] == bytes((1, 12, 0))


def test_all_types_of_kafka_4_3_are_known() -> None:
    assert sorted(RECORD_TYPES) == [*range(6), *range(7, 13), *range(14, 16), *range(17, 29)]


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\x01",
        b"\x01\x0c",
        b"\x02\x0c\x00\x00",
        b"\x01\x63\x00\x00",
        b"\x01\x0c\x09\x00",
        b"\xff\xff\xff\xff\xff\xff",
        encode_record(TopicRecord(name="a")) + b"\x00",
        encode_record(TopicRecord(name="a"))[:-1],
    ],
)
def test_invalid_bytes_are_a_decode_error(value: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_record(value)


@given(st.binary(max_size=64))
@settings(max_examples=500, deadline=None)
def test_random_bytes_decode_or_are_a_decode_error(value: bytes) -> None:
    try:
        record = decode_record(b"\x01" + value)
    except DecodeError:
        return
    assert type(record) in RECORD_TYPES.values()
