"""`tidelog topic trim`: deletes the oldest records, by offset or time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.support.cli import tidelog_failure, tidelog_output
from tidelog.testing.embedded import EmbeddedCluster


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedCluster() as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
def topic(servers: str) -> str:
    """Create a topic with ten records in its only partition."""
    name = f"tides-{uuid4().hex[:6]}"
    tidelog_output("topic", "create", name, "-p", "1", bootstrap=servers)
    tidelog_output("produce", name, stdin="\n".join("0123456789"), bootstrap=servers)
    return name


def read(servers: str, topic: str) -> str:
    return tidelog_output("consume", topic, "-e", "-f", "%s", bootstrap=servers)


@pytest.mark.parametrize(
    ("options", "remaining_records"),
    [
        (("--before", "4"), "456789"),
        (("--before", "end"), ""),
        (("--before-time", "2001-01-01T00:00:00"), "0123456789"),
        (("--before-time", "2999-01-01T00:00:00"), ""),
        (("--before", "4", "--dry-run"), "0123456789"),
    ],
)
def test_records_before_an_offset_or_a_time_are_deleted(
    servers: str, topic: str, options: tuple[str, ...], remaining_records: str
) -> None:
    tidelog_output("topic", "trim", topic, *options, bootstrap=servers)
    assert read(servers, topic) == remaining_records


def test_the_number_of_deleted_records_is_printed(servers: str, topic: str) -> None:
    output = tidelog_output("topic", "trim", f"{topic}:0", "--before", "4", "--json", bootstrap=servers)
    assert json.loads(output) == [
        {"topic": topic, "partition": 0, "log_start_offset": 0, "new_log_start_offset": 4, "deleted": 4}
    ]
    # An offset before the start deletes nothing.
    output = tidelog_output("topic", "trim", topic, "--before", "1", bootstrap=servers)
    assert output.splitlines()[1].split() == [topic, "0", "4", "4", "0"]


def test_wrong_usage_and_an_offset_after_the_end_are_one_line(servers: str, topic: str) -> None:
    assert "OFFSET_OUT_OF_RANGE" in tidelog_failure(
        "topic", "trim", topic, "--before", "11", bootstrap=servers
    )
    for arguments, text in {
        ("topic", "trim", "--before", "1"): "give topics or partitions",
        ("topic", "trim", topic): "give --before or --before-time",
        ("topic", "trim", topic, "--before", "start"): "expected an offset, or 'end'",
    }.items():
        assert text in tidelog_failure(*arguments, code=2, bootstrap=servers)
