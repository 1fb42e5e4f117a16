"""Filters that narrow a read keep every matching row, across the border and with unordered timestamps."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
)

from tests.support.spark.topics import START_MS, Sent, produce
from tests.support.tier.tiered_topics import TieredTopics
from tidelog.spark_connector.planning.source_options import read_source_options
from tidelog.spark_connector.reading.batch_reader import FilteringBatchReader, as_comparison
from tidelog.spark_connector.reading.input_partitions import RangePartition
from tidelog.testing.embedded import EmbeddedCluster

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COUNT = 1_500
# Increasing in general, as retention and rolling expect, with disorder everywhere.
TIMES_MS = [START_MS + 2 * number + random.Random(number).randrange(600) for number in range(COUNT)]


class Case(NamedTuple):
    """Filters as Spark pushes them down, and their result for an offset and its timestamp in ms."""

    filters: list[Filter]
    matches: Callable[[int, int], bool]


def time_at(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


OFFSET, TIME = ("offset",), ("timestamp",)
MIDDLE_MS = START_MS + COUNT
CASES = {
    "nothing": Case([], lambda offset, ms: True),
    "from": Case([GreaterThanOrEqual(TIME, time_at(MIDDLE_MS))], lambda offset, ms: ms >= MIDDLE_MS),
    "after": Case([GreaterThan(TIME, time_at(MIDDLE_MS))], lambda offset, ms: ms > MIDDLE_MS),
    "until": Case([LessThanOrEqual(TIME, time_at(MIDDLE_MS))], lambda offset, ms: ms <= MIDDLE_MS),
    "one time": Case([EqualTo(TIME, time_at(TIMES_MS[900]))], lambda offset, ms: ms == TIMES_MS[900]),
    "times": Case(
        [In(TIME, tuple(time_at(TIMES_MS[n]) for n in (1_400, 7)))],
        lambda offset, ms: ms in {TIMES_MS[1_400], TIMES_MS[7]},
    ),
    "future": Case([GreaterThan(TIME, time_at(2 * START_MS))], lambda offset, ms: False),
    "span": Case(
        [GreaterThan(OFFSET, 300), LessThan(OFFSET, 1_490), GreaterThan(TIME, time_at(MIDDLE_MS + 500))],
        lambda offset, ms: 300 < offset < 1_490 and ms > MIDDLE_MS + 500,
    ),
    "not": Case([Not(LessThan(OFFSET, 700))], lambda offset, ms: offset >= 700),
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(tiered=True) as running:
        yield running


@pytest.fixture(scope="module")
def topic(cluster: EmbeddedCluster) -> str:
    tiered = TieredTopics(cluster)
    tiered.create("tides", {"internal.segment.bytes": "300000", "index.interval.bytes": "1000"})
    produce(cluster.bootstrap_servers, "tides", [Sent(None, bytes(900), (), ms) for ms in TIMES_MS])
    border = tiered.wait_until_tiered("tides")
    assert 600 < border.local_start < COUNT
    return "tides"


def reader(cluster: EmbeddedCluster, topic: str, tier: str) -> FilteringBatchReader:
    values = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "subscribe": topic,
        "tier": tier,
        "rsm.config.storage.backend.class": "filesystem",
        "rsm.config.storage.root": str(cluster.tier_dir),
    }
    if tier == "broker":
        values = {name: value for name, value in values.items() if not name.startswith("rsm.")}
    return FilteringBatchReader(read_source_options(values, is_streaming=False))


def rows(of: FilteringBatchReader) -> list[dict[str, Any]]:
    return [row for part in of.partitions() for rows in of.read(part) for row in rows.to_pylist()]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("tier", ["broker", "direct", "offline"])
def test_every_matching_row_is_read(cluster: EmbeddedCluster, topic: str, tier: str, case: Case) -> None:
    pruned = reader(cluster, topic, tier)
    assert pruned.pushFilters(case.filters) is case.filters
    end = COUNT if tier != "offline" else TieredTopics(cluster).border(topic).highest_remote + 1
    expected = [offset for offset in range(end) if case.matches(offset, TIMES_MS[offset])]
    offsets = sorted(row["offset"] for row in rows(pruned))
    assert [offset for offset in offsets if case.matches(offset, TIMES_MS[offset])] == expected


def test_ranges_start_at_the_first_possible_match(cluster: EmbeddedCluster, topic: str) -> None:
    pruned = reader(cluster, topic, "broker")
    pruned.pushFilters(CASES["span"].filters)
    (part,) = pruned.partitions()
    assert isinstance(part, RangePartition)
    first = next(offset for offset, ms in enumerate(TIMES_MS) if ms > MIDDLE_MS + 500)
    assert (part.offset_range.start_offset, part.offset_range.end_offset) == (max(301, first), 1_490)
    pruned.pushFilters([EqualTo(("topic",), "elsewhere")])
    assert pruned.partitions() == []


def test_filters_without_effect_are_skipped() -> None:
    assert as_comparison(Not(EqualTo(OFFSET, 1))) is None
    assert as_comparison(EqualTo(("headers", "key"), "x")) is None
