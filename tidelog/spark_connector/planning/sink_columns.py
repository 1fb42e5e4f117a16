"""The columns that a sink writes, and their types; checked when a query is planned.

| column | type | if missing or null |
|---|---|---|
| value | string or binary | the column is required; null is a tombstone |
| key | string or binary | no key |
| topic | string | required unless the option `topic` is set, which overrides it |
| partition | int | chosen by the key's hash as in Kafka's clients; sticky without a key |
| headers | array of struct of key string, value binary | no headers |
| timestamp | timestamp | the time of the write |

Other columns are ignored, as in Spark's Kafka sink. That sink has no `timestamp`; the rest is the same.

Source: KafkaWriter of Apache Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tidelog.base.dataclass import dataclass
from tidelog.spark_connector.planning.option_values import OptionError

_BYTES: Final = ("string", "binary")
ALLOWED: Final[Mapping[str, tuple[str, ...]]] = {
    "key": _BYTES,
    "value": _BYTES,
    "headers": ("array<struct<key:string,value:binary>>",),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
}


class ColumnError(ValueError):
    """The columns of a frame cannot be written; the text names the column and what is allowed."""


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """The position of each column in a row, or None. `topic` is the value of the option."""

    positions: Mapping[str, int]
    topic: str | None

    def position(self, name: str) -> int | None:
        """Return the position of a column of `ALLOWED`, or None."""
        return self.positions.get(name)


def check_columns(columns: Iterable[tuple[str, str]], topic: str | None) -> SinkColumns:
    """Return the positions of `columns`, which are pairs of a name and an SQL type.

    Errors: ColumnError for a wrong column; OptionError if neither a column nor the option has the topic.
    """
    positions: dict[str, int] = {}
    names = []
    for position, (name, kind) in enumerate(columns):
        names.append(name)
        if name in positions:
            raise ColumnError(f"there are two columns {name!r}")
        if name in ALLOWED:
            _require_type(name, kind)
            positions[name] = position
        elif name.lower() in ALLOWED:
            raise ColumnError(f"column {name!r}: it is written {name.lower()!r}, or has another name")
    if "value" not in positions:
        raise ColumnError(f"there is no column 'value' (string or binary) among {', '.join(names)}")
    if topic is None and "topic" not in positions:
        raise OptionError("a topic is required: set the option topic, or have a column 'topic' (string)")
    return SinkColumns(positions, topic)


def _require_type(name: str, kind: str) -> None:
    # A collation is how strings compare, their bytes are the same.
    without_collation = "string" if kind.startswith("string collate ") else kind
    if without_collation not in ALLOWED[name]:
        raise ColumnError(f"column {name!r} has type {kind}: expected {' or '.join(ALLOWED[name])}")
