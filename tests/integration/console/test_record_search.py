"""The bounds of a search for records, and of what it shows."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from tidelog.cli.console.record_search import (
    SHOWN_BYTES,
    InvalidSearchError,
    RecordSearch,
    find_records,
)
from tidelog.clients.consumer.consumer import Consumer
from tidelog.clients.consumer.consumer_types import ConsumerRecord, TimestampType
from tidelog.protocol.ids import TopicPartition

PARTITION = TopicPartition("t", 0)


class OneRecord:
    """A consumer of a partition with one record."""

    def __init__(self, record: ConsumerRecord) -> None:
        self._record = record

    def assign(self, partitions: list[TopicPartition]) -> None:
        assert partitions == [PARTITION]

    def seek(self, partition: TopicPartition, offset: int) -> None:
        assert offset == 0

    async def beginning_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    async def end_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 1)

    async def poll(self, timeout_ms: int) -> dict[TopicPartition, list[ConsumerRecord]]:
        return {PARTITION: [self._record]}

    async def position(self, partition: TopicPartition) -> int:
        return 1


@pytest.mark.parametrize("value", [b"x" * 10_000, b""])
async def test_the_headers_of_a_record_are_shown_up_to_a_limit(value: bytes) -> None:
    headers = tuple(("name", value) for _ in range(10_000))
    record = ConsumerRecord("t", 0, 0, 5, TimestampType.CREATE_TIME, b"key", b"value", headers, 0)
    result = await find_records(cast(Consumer, OneRecord(record)), RecordSearch(partition=PARTITION))
    (shown,) = cast(list[dict[str, Any]], result["records"])
    assert shown["is_cut"]
    assert 0 < len(shown["headers"]) < 10_000
    assert len(json.dumps(shown)) < 4 * SHOWN_BYTES


@pytest.mark.parametrize("text", ["9" * 5000, "9" * 19, "-1", "1.5"])
def test_a_number_that_cannot_be_an_offset_is_an_invalid_search(text: str) -> None:
    with pytest.raises(InvalidSearchError, match="allowed are 0 to"):
        RecordSearch.parse("t", {"offset": text})
