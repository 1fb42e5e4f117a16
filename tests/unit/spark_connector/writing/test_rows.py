"""Arrow rows are converted to records of the producer, or refused by column."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tidelog.spark_connector.arrow.schema import HEADERS_TYPE
from tidelog.spark_connector.planning.sink_columns import SinkColumns
from tidelog.spark_connector.writing.rows import SLICE_ROWS, OutgoingRecord, RowError, outgoing_slices

TYPES = {
    "topic": pa.string(),
    "value": pa.binary(),
    "key": pa.string(),
    "headers": HEADERS_TYPE,
    "partition": pa.int32(),
    "timestamp": pa.timestamp("us", tz="Europe/Berlin"),
}


def records(topic_option: str | None = None, /, **columns: list[Any]) -> list[OutgoingRecord]:
    arrays = {name: pa.array(values, TYPES[name]) for name, values in columns.items()}
    rows = pa.RecordBatch.from_pydict(arrays)
    positions = {name: number for number, name in enumerate(columns)}
    return [one for part in outgoing_slices(rows, SinkColumns(positions, topic_option)) for one in part]


def test_every_column_is_written() -> None:
    sent = records(
        headers=[[{"key": "a", "value": b"1"}, {"key": "a", "value": None}], None, []],
        timestamp=[1_700_000_000_000_999, None, 0],
        partition=[2, None, 0],
        value=[b"high", None, b""],
        key=["grün", "", None],
        topic=["tides", "moons", "tides"],
    )
    assert sent == [
        ("tides", b"high", "grün".encode(), [("a", b"1"), ("a", None)], 2, 1_700_000_000_000),
        ("moons", None, b"", (), None, None),
        ("tides", b"", None, [], 0, 0),
    ]


def test_the_topic_option_takes_precedence_over_the_column() -> None:
    assert records("suns", value=[b"x"], topic=[None]) == [("suns", b"x", None, (), None, None)]


def test_large_types_and_many_rows_are_written() -> None:
    rows = pa.RecordBatch.from_pydict(
        {
            "value": pa.array([str(number) for number in range(3 * SLICE_ROWS + 1)], pa.large_string()),
            "topic": pa.array(["t"] * (3 * SLICE_ROWS + 1), pa.large_string()),
        }
    )
    parts = list(outgoing_slices(rows, SinkColumns({"value": 0, "topic": 1}, None)))
    assert [len(part) for part in parts] == [SLICE_ROWS] * 3 + [1]
    assert parts[3][0].value == b"%d" % (3 * SLICE_ROWS)


def test_a_missing_timestamp_is_set_by_the_producer() -> None:
    rows = pa.RecordBatch.from_pydict(
        {"topic": ["t", "t", "t"], "timestamp": pa.array([-1, 0, 7], pa.timestamp("ms", tz="UTC"))}
    )
    (records,) = outgoing_slices(rows, SinkColumns({"topic": 0, "timestamp": 1}, None))
    assert [record.timestamp_ms for record in records] == [None, 0, 7]


@pytest.mark.parametrize(
    ("columns", "refusal"),
    [
        ({"topic": ["t", None]}, "column 'topic' is null or empty in a row: set the option topic"),
        ({"topic": ["t", ""]}, "column 'topic' is null or empty"),
        ({"topic": ["t", "t"], "partition": [0, -1]}, "column 'partition' is -1 in a row"),
        ({"topic": ["t", "t"], "timestamp": [None, -1]}, "column 'timestamp' is before 1970"),
        ({"topic": ["t", "t"], "headers": [None, [None]]}, "header without a key"),
        ({"topic": ["t", "t"], "headers": [[], [{"key": None, "value": b""}]]}, "header without a key"),
    ],
)
def test_invalid_rows_are_refused_with_their_column(columns: dict[str, list[Any]], refusal: str) -> None:
    with pytest.raises(RowError, match=refusal):
        records(value=[b"x", b"y"], **columns)
