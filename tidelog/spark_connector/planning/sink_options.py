"""The options of the sink: those of Spark's Kafka sink.

Source: the guide to Spark's Kafka integration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidelog.base.dataclass import dataclass
from tidelog.spark_connector.planning.client_options import WRITING, ClientOptions, read_client_options
from tidelog.spark_connector.planning.option_values import (
    CLIENT_PREFIX,
    OptionError,
    read_bool,
    require_supported,
)

_OWN: Final = ("topic", "includeHeaders")
# Spark also passes the settings of a query to its sink.
_OF_SPARK: Final = (
    "checkpointLocation",
    "queryName",
    "asyncProgressTrackingEnabled",
    "asyncProgressTrackingCheckpointIntervalMs",
)
SUPPORTED_OPTIONS: Final = (*_OWN, *_OF_SPARK)


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of a query that writes; `topic` overrides the column of that name."""

    client: ClientOptions
    topic: str | None


def read_sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Return the options of a query that writes. Raise OptionError for an unknown or invalid one.

    `includeHeaders` is checked and has no effect, as in Spark: headers are written if there is the column.
    """
    require_supported(options, SUPPORTED_OPTIONS)
    values = {name.lower(): text for name, text in options.items()}
    read_bool("includeHeaders", values.get("includeheaders", "false"))
    topic = values.get("topic")
    if topic is not None and not topic.strip():
        raise OptionError.of("topic", topic, "the name of a topic, or no such option and a column topic")
    client = read_client_options(values, WRITING)
    acks = client.values.get("acks", "all")
    if acks not in ("all", "-1"):
        raise OptionError.of(
            f"{CLIENT_PREFIX}acks", acks, "all: with less, records that were confirmed can be lost"
        )
    return SinkOptions(client, None if topic is None else topic.strip())
