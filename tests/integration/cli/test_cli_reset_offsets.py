"""`tidelog group reset-offsets`: every way of Kafka's tool, its files, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.cli import tidelog, tidelog_failure, tidelog_output
from tidelog.cli.failures import UsageFailure
from tidelog.cli.offset_reset import offsets_text, parse_datetime, parse_duration, read_offsets
from tidelog.protocol.ids import TopicPartition
from tidelog.testing.embedded import EmbeddedCluster

COMMITTED = 6
END = 10


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """Run a broker with the topic `tides`: one partition, ten records, of which the first two are deleted."""
    with EmbeddedCluster() as cluster:
        servers = cluster.bootstrap_servers
        tidelog_output("topic", "create", "tides", "-p", "1", bootstrap=servers)
        tidelog_output("produce", "tides", stdin="\n".join(map(str, range(END))), bootstrap=servers)
        tidelog_output("topic", "trim", "tides:0", "--before", "2", bootstrap=servers)
        yield servers


@pytest.fixture
def group(servers: str) -> str:
    """Create a group without members that has committed offset 6."""
    name = f"harbour-{uuid4().hex[:6]}"
    reset(servers, name, "--topic", "tides", "--to-offset", str(COMMITTED), "--execute")
    return name


def reset(servers: str, group: str, *arguments: str) -> list[dict[str, object]]:
    result = tidelog("group", "reset-offsets", group, *arguments, "--json", bootstrap=servers)
    assert result.exit_code == 0, result.stderr
    entries: list[dict[str, object]] = json.loads(result.stdout)
    return entries


def committed_offset(servers: str, group: str) -> int:
    (document,) = json.loads(tidelog_output("group", "describe", group, "--json", bootstrap=servers))
    (entry,) = document["partitions"]
    offset: int = entry["committed_offset"]
    return offset


def hours_from_now(hours: int) -> str:
    return (datetime.now(UTC) + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%S")


@pytest.mark.parametrize(
    ("way", "offset"),
    [
        (("--to-earliest",), 2),
        (("--to-latest",), END),
        (("--to-current",), COMMITTED),
        (("--to-offset", "4"), 4),
        (("--to-offset", "0"), 2),
        (("--to-offset", "99"), END),
        (("--shift-by", "-3"), 3),
        (("--shift-by", "3"), 9),
        (("--shift-by", "99"), END),
        (("--to-datetime", hours_from_now(-1)), 2),
        (("--to-datetime", hours_from_now(1)), END),
        (("--by-duration", "PT1H"), 2),
        (("--by-duration", "PT0S"), END),
    ],
)
def test_each_way_sets_the_offset_within_the_bounds_of_the_log(
    servers: str, group: str, way: tuple[str, ...], offset: int
) -> None:
    (entry,) = reset(servers, group, "--topic", "tides:0", *way, "--execute")
    assert (entry["committed_offset"], entry["new_offset"]) == (COMMITTED, offset)
    assert committed_offset(servers, group) == offset


def test_a_dry_run_changes_nothing_and_reports_it(servers: str, group: str) -> None:
    result = tidelog("group", "reset-offsets", group, "--all-topics", "--to-earliest", bootstrap=servers)
    assert result.stdout.splitlines()[1].split() == ["tides", "0", "6", "2"]
    assert result.stderr == f"tidelog: dry run: --execute resets 1 offset of group '{group}'\n"
    assert committed_offset(servers, group) == COMMITTED


def test_exported_offsets_are_applied_from_the_file(servers: str, group: str, tmp_path: Path) -> None:
    exported = tidelog(
        "group", "reset-offsets", group, "--all-topics", "--shift-by", "1", "--export", bootstrap=servers
    )
    assert exported.stdout == "tides,0,7\n"
    file = tmp_path / "offsets.csv"
    file.write_text(exported.stdout)
    reset(servers, group, "--from-file", str(file), "--execute")
    assert committed_offset(servers, group) == 7


def test_a_group_with_members_is_refused(servers: str, group: str) -> None:
    import confluent_kafka

    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": group})
    try:
        consumer.subscribe(["tides"])
        while not consumer.assignment():
            consumer.poll(0.1)
        arguments = ("group", "reset-offsets", group, "--topic", "tides", "--to-earliest", "--execute")
        error = tidelog_failure(*arguments, code=2, bootstrap=servers)
    finally:
        consumer.close()
    assert "is inactive; it is Stable and has 1 member" in error


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "give one of --to-earliest, --to-latest"),
        (("--to-earliest", "--to-latest", "--all-topics"), "give one of"),
        (("--to-earliest",), "give --topic, --all-topics or --from-file"),
        (("--to-earliest", "--topic", "tides:7"), "topic 'tides' has no partition 7"),
        (("--to-datetime", "yesterday", "--all-topics"), "expected YYYY-MM-DDTHH:mm:SS"),
        (("--by-duration", "3 hours", "--all-topics"), "expected PnDTnHnMnS"),
        (("--shift-by", "1", "--topic", "tides"), "the group has no committed offset of tides-0"),
        (("--to-earliest", "--all-topics"), "group 'new' has no committed offsets"),
    ],
)
def test_wrong_usage_is_one_line(servers: str, arguments: tuple[str, ...], text: str) -> None:
    assert text in tidelog_failure("group", "reset-offsets", "new", *arguments, code=2, bootstrap=servers)


# --- values and files


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("P1D", 86_400_000),
        ("PT2H30M", 9_000_000),
        ("pt0.5s", 500),
        ("-PT1M", -60_000),
        ("P1DT1S", 86_401_000),
    ],
)
def test_durations_are_those_of_iso_8601(text: str, milliseconds: int) -> None:
    assert parse_duration(text) == milliseconds


@pytest.mark.parametrize("text", ["P", "PT", "1D", "P1H", "PT1D", ""])
def test_other_durations_are_refused_with_their_text(text: str) -> None:
    with pytest.raises(UsageFailure, match="--by-duration"):
        parse_duration(text)


def test_a_time_without_an_offset_is_in_utc() -> None:
    assert (
        parse_datetime("1970-01-01T00:00:01.250") == parse_datetime("1970-01-01T02:00:01.250+02:00") == 1_250
    )
    with pytest.raises(UsageFailure, match="--to-datetime"):
        parse_datetime("1970-13-01T00:00:00")


def test_files_may_have_the_offsets_of_several_groups_and_quoted_topics() -> None:
    text = 'harbour,"tides",0,5\nother,tides,0,9\n\nharbour,tides,1,6\n'
    offsets = {TopicPartition("tides", 0): 5, TopicPartition("tides", 1): 6}
    assert read_offsets(text, "harbour", "file") == offsets
    assert read_offsets(offsets_text(offsets), "harbour", "file") == offsets
    with pytest.raises(UsageFailure, match="line 2: expected topic,partition,offset"):
        read_offsets("tides,0,5\ntides,x,6\n", "harbour", "file")
    with pytest.raises(UsageFailure, match="no offset of group 'other'"):
        read_offsets("harbour,tides,0,5\n", "other", "file")
