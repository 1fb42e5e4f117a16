"""Ids are printed as Kafka prints them, and read back only from that form."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.protocol.ids import TopicPartition, uuid_from_text, uuid_text
from tidelog.protocol.schema import ZERO_UUID


def test_a_partition_prints_as_its_directory_is_called() -> None:
    assert str(TopicPartition("__consumer_offsets", 49)) == "__consumer_offsets-49"


def test_the_zero_id_and_the_id_of_the_metadata_topic_print_as_in_kafka() -> None:
    assert uuid_text(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuid_text(UUID(int=1)) == "AAAAAAAAAAAAAAAAAAAAAQ"


@given(st.uuids())
@settings(max_examples=100, deadline=None)
def test_printed_ids_are_read_back(value: UUID) -> None:
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
def test_other_text_is_refused_and_shown(text: str) -> None:
    with pytest.raises(ValueError, match="is not an id"):
        uuid_from_text(text)
