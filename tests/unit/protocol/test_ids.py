"""Ids are formatted as in Kafka and read only from that form."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.protocol.ids import TopicPartition, uuid_from_text, uuid_text
from tidelog.protocol.schema import ZERO_UUID


def test_a_partition_is_formatted_as_its_directory_name() -> None:
    assert str(TopicPartition("__consumer_offsets", 49)) == "__consumer_offsets-49"


def test_reserved_ids_are_formatted_as_in_kafka() -> None:
    assert uuid_text(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuid_text(UUID(int=1)) == "AAAAAAAAAAAAAAAAAAAAAQ"


@given(st.uuids())
@settings(max_examples=100, deadline=None)
def test_formatted_ids_are_read_back(value: UUID) -> None:
    text = uuid_text(value)
    assert len(text) == 22
    assert uuid_from_text(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A",
        "A" * 21,
        "A" * 23,
        "A" * 24,
        "!" * 22,
        "A" * 21 + "=",
        "A" * 20 + "+/",
        "ä" * 22,
        "A" * 20 + "\nA",
    ],
)
def test_invalid_text_is_refused_with_the_value(text: str) -> None:
    with pytest.raises(ValueError, match="is not an id"):
        uuid_from_text(text)
