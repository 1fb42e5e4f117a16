"""The bounds of a search for records, and of what it shows."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from tidelog.base.clock import SystemClock
from tidelog.cli.console.record_search import (
    DECODED_CHARACTERS_MAX,
    SHOWN_BYTES,
    InvalidSearchError,
    RecordSearch,
    find_records,
)
from tidelog.cli.console.schemas.decoding import SchemaDecoder
from tidelog.cli.console.schemas.registry import AVRO, Schema, SchemaRegistry
from tidelog.clients.consumer.consumer import Consumer
from tidelog.clients.consumer.consumer_types import ConsumerRecord, TimestampType
from tidelog.protocol.ids import TopicPartition

PARTITION = TopicPartition("t", 0)


class AllRecords:
    """A consumer of a partition with a few records, which one poll returns."""

    def __init__(self, *records: ConsumerRecord) -> None:
        self._records = records

    def assign(self, partitions: list[TopicPartition]) -> None:
        assert partitions == [PARTITION]

    def seek(self, partition: TopicPartition, offset: int) -> None:
        assert offset == 0

    async def beginning_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    async def end_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, len(self._records))

    async def poll(self, timeout_ms: int) -> dict[TopicPartition, list[ConsumerRecord]]:
        return {PARTITION: list(self._records)}

    async def position(self, partition: TopicPartition) -> int:
        return len(self._records)


class ArraysOfNulls:
    """A registry in which each schema is one of Avro."""

    async def schema(self, schema_id: int) -> Schema:
        return Schema(schema_id, AVRO, json.dumps({"type": "array", "items": "null"}))


@pytest.mark.parametrize("value", [b"x" * 10_000, b""])
async def test_the_headers_of_a_record_are_shown_up_to_a_limit(value: bytes) -> None:
    headers = tuple(("name", value) for _ in range(10_000))
    record = ConsumerRecord("t", 0, 0, 5, TimestampType.CREATE_TIME, b"key", b"value", headers, 0)
    result = await find_records(cast(Consumer, AllRecords(record)), RecordSearch(partition=PARTITION))
    (shown,) = cast(list[dict[str, Any]], result["records"])
    assert shown["is_cut"]
    assert 0 < len(shown["headers"]) < 10_000
    assert len(json.dumps(shown)) < 4 * SHOWN_BYTES


async def test_records_of_a_few_bytes_do_not_become_hundreds_of_megabytes() -> None:
    # The id of a schema, 90,000 in zigzag encoding, and the end of the array.
    value = b"\0\0\0\0\1" + b"\xa0\xfe\x0a" + b"\0"
    records = [
        ConsumerRecord("t", 0, offset, 5, TimestampType.CREATE_TIME, None, value, (), 0)
        for offset in range(50)
    ]
    decoder = SchemaDecoder(cast(SchemaRegistry, ArraysOfNulls()), SystemClock())
    search = RecordSearch(partition=PARTITION, offset=0)
    result = await find_records(cast(Consumer, AllRecords(*records)), search, decoder)
    shown = [record["decoded_value"] for record in result["records"]]
    assert len(shown[0]["text"]) == 6 * 90_000
    assert len(json.dumps(result)) < DECODED_CHARACTERS_MAX + 1_000_000
    assert shown[-1] == {
        "schema_id": 1,
        "error": "the records before have 4194304 characters, which is the limit of a search",
    }


@pytest.mark.parametrize("text", ["9" * 5000, "9" * 19, "-1", "1.5"])
def test_a_number_that_cannot_be_an_offset_is_an_invalid_search(text: str) -> None:
    with pytest.raises(InvalidSearchError, match="allowed are 0 to"):
        RecordSearch.parse("t", {"offset": text})
