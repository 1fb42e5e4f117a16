"""The partition of a group: Java's string hash, also for surrogate pairs and the smallest int.

The expected numbers were computed with the classes of Kafka 4.3.1.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.broker.coordinators.shared.partitioning import java_string_hash, partition_for


@pytest.mark.parametrize(
    ("group_id", "java_hash", "partition"),
    [
        ("", 0, 0),
        ("a", 97, 47),
        ("console-consumer-12345", 158455506, 6),
        ("my-group", -1906497762, 12),
        ("connect-cluster", 1440343063, 13),
        ("\U0001f600-gruppe", 1503238373, 23),
        ("polygenelubricants", -2147483648, 0),
    ],
)
def test_groups_are_partitioned_as_in_kafka(group_id: str, java_hash: int, partition: int) -> None:
    assert java_string_hash(group_id) == java_hash % 2**32
    assert partition_for(group_id, 50) == partition


@given(st.text(max_size=300))
def test_the_hash_is_javas_for_texts_of_every_length(text: str) -> None:
    data = text.encode("utf-16-be", "surrogatepass")
    expected = 0
    for start in range(0, len(data), 2):
        expected = (31 * expected + int.from_bytes(data[start : start + 2])) % 2**32
    assert java_string_hash(text) == expected
