"""Names of partition directories."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.protocol.ids import TopicPartition
from tidelog.storage.directories.partition_directory import (
    DirectoryKind,
    directory_name,
    parse_directory_name,
    renamed_directory_name,
)

ID = UUID(int=0xABC)
TOPICS = st.text("abcXYZ0189._-", min_size=1, max_size=249)


@pytest.mark.parametrize(
    ("name", "topic", "partition", "kind"),
    [
        ("events-0", "events", 0, "IN_USE"),
        ("a-b.c-d-17", "a-b.c-d", 17, "IN_USE"),
        ("t--3", "t-", 3, "IN_USE"),
        ("t-5-delete-1", "t-5-delete", 1, "IN_USE"),
        ("my.topic-5.0123456789abcdef0123456789abcdef-delete", "my.topic", 5, "DELETED"),
        ("t-5.abc-stray", "t", 5, "STRAY"),
        ("t-5.abc-future", "t", 5, "FUTURE"),
    ],
)
def test_the_partition_number_is_after_the_last_dash(
    name: str, topic: str, partition: int, kind: str
) -> None:
    assert parse_directory_name(name) == (TopicPartition(topic, partition), DirectoryKind[kind])


@pytest.mark.parametrize(
    "name",
    [
        "",
        "events",
        "-0",
        "events-",
        "events-x",
        "events-1x",
        "t-99999999999",
        "t-5-delete",
        "t-5.-delete",
        "t-²",
    ],
)
def test_other_names_are_not_partitions(name: str) -> None:
    assert parse_directory_name(name) is None


@given(topic=TOPICS, partition=st.integers(0, 2**31 - 1))
def test_every_partition_is_parsed_from_its_directory_name(topic: str, partition: int) -> None:
    name = directory_name(TopicPartition(topic, partition))
    parsed = parse_directory_name(name)
    if name.endswith(("-delete", "-stray", "-future")):
        return
    assert parsed == (TopicPartition(topic, partition), DirectoryKind.IN_USE)


@given(topic=TOPICS, partition=st.integers(0, 2**31 - 1), kind=st.sampled_from(list(DirectoryKind)[1:]))
def test_names_of_deleted_and_stray_directories_are_valid_and_recognized(
    topic: str, partition: int, kind: DirectoryKind
) -> None:
    name = renamed_directory_name(TopicPartition(topic, partition), kind, ID)
    assert len(name) <= 255
    parsed = parse_directory_name(name)
    assert parsed is not None
    assert parsed.kind is kind
    assert parsed.topic_partition.partition == partition
    assert topic.startswith(parsed.topic_partition.topic)
