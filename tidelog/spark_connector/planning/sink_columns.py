"""The columns that a sink writes: which there are and of which types; judged when a query is planned.

| column | type | without it, or null |
|---|---|---|
| value | string or binary | needed; null is a tombstone |
| key | string or binary | no key |
| topic | string | needed unless the option `topic` is set, which goes before it |
| partition | int | by the key's hash as Kafka's own clients do it; sticky without a key |
| headers | array of struct of key string, value binary | none |
| timestamp | timestamp | when it is written |

Columns of other names are left out, as in Spark's Kafka sink. It has no `timestamp`; the rest is the same.

Source: KafkaWriter of Apache Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

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
    """A frame that a sink cannot write; the text names the column and what is allowed."""


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """Where each column stands in a row; None where there is none. `topic` is the one of the option."""

    positions: Mapping[str, int]
    topic: str | None

    def position(self, name: str) -> int | None:
        """The place of a column of `ALLOWED`."""
        return self.positions.get(name)


def check_columns(columns: Iterable[tuple[str, str]], topic: str | None) -> SinkColumns:
    """The columns of a frame by name and by type as SQL writes it, or what is wrong with them.

    Errors: ColumnError; OptionError when neither a column nor the option says the topic.
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
        raise OptionError("a topic is needed: set the option topic, or have a column 'topic' (string)")
    return SinkColumns(positions, topic)


def _require_type(name: str, kind: str) -> None:
    # A collation is how strings compare, their bytes are the same.
    plain = "string" if kind.startswith("string collate ") else kind
    if plain not in ALLOWED[name]:
        raise ColumnError(f"column {name!r} has type {kind}: expected {' or '.join(ALLOWED[name])}")
