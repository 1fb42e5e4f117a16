"""The options of the source: those of Spark's Kafka source and those for the tier.

Spark passes names in lower case. Messages show them as Spark's guide writes them.

Source: the guide to Spark's Kafka integration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tidelog.base.dataclass import dataclass
from tidelog.spark_connector.planning.client_options import ClientOptions, read_client_options
from tidelog.spark_connector.planning.offset_specs import Bound, OffsetSpec, read_ending, read_starting
from tidelog.spark_connector.planning.option_values import (
    OptionError,
    read_bool,
    read_choice,
    read_duration_ms,
    read_number,
    require_supported,
)
from tidelog.spark_connector.planning.tier_options import (
    STORAGE_PREFIX,
    TIER_OPTIONS,
    TierMode,
    TierOptions,
    read_tier_options,
)
from tidelog.spark_connector.planning.topic_choice import STRATEGIES, TopicChoice, read_topic_choice

_STARTING: Final = ("startingOffsets", "startingOffsetsByTimestamp", "startingTimestamp")
_ENDING: Final = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
_TRIGGER: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
# Spark's own source ignores them in batch queries, because jobs share their options.
_TRIGGER_LOWER: Final = frozenset(name.lower() for name in _TRIGGER)
PUSHDOWN: Final = "pushdown"
_OTHERS: Final = (
    "startingOffsetsByTimestampStrategy",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    PUSHDOWN,
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
SUPPORTED_OPTIONS: Final = (*STRATEGIES, *_STARTING, *_ENDING, *_TRIGGER, *_OTHERS, *TIER_OPTIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options of a query; a number that is None sets no limit.

    Reading fails after `poll_timeout_ms` without progress. A failed look-up of offsets, or one that returns a
    lower end than before, is retried `fetch_offset_retries` times, every `fetch_offset_retry_interval_ms`.
    """

    client: ClientOptions
    topics: TopicChoice
    starting: OffsetSpec
    ending: OffsetSpec
    starting_strategy: str
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    min_partitions: int | None
    max_records_per_partition: int | None
    fail_on_data_loss: bool
    include_headers: bool
    poll_timeout_ms: int
    fetch_offset_retries: int
    fetch_offset_retry_interval_ms: int
    tier: TierOptions
    pushes_filters: bool

    @property
    def begins_latest_without_match(self) -> bool:
        """Whether a partition without a record at or after the starting timestamp starts at its end."""
        return self.starting_strategy == "latest"


def read_includes_headers(options: Mapping[str, str]) -> bool:
    """Return whether the schema has the column `headers`. Other options are not checked yet."""
    values = {name.lower(): text for name, text in options.items()}
    return read_bool("includeHeaders", values.get("includeheaders", "false"))


def read_source_options(options: Mapping[str, str], *, is_streaming: bool) -> SourceOptions:
    """Return the options of a query that reads. Raise OptionError for a missing, unknown or invalid one."""
    values = {name.lower(): text for name, text in options.items()}
    require_supported(
        (name for name in options if not name.lower().startswith(STORAGE_PREFIX)), SUPPORTED_OPTIONS
    )
    tier = read_tier_options(values)
    if is_streaming:
        _require_absent(values, _ENDING, "streams have no end; it is for batch queries only")
        _require_absent(values, (PUSHDOWN,), "Spark pushes filters down in batch queries only")
    else:
        values = {name: text for name, text in values.items() if name not in _TRIGGER_LOWER}
    numbers = {
        name: _number(values, name) for name in (*_TRIGGER[:2], "minPartitions", "maxRecordsPerPartition")
    }
    most, least = numbers["maxOffsetsPerTrigger"], numbers["minOffsetsPerTrigger"]
    if most is not None and least is not None and least > most:
        raise OptionError.of("minOffsetsPerTrigger", least, f"at most maxOffsetsPerTrigger={most}")
    default = Bound.LATEST if is_streaming else Bound.EARLIEST
    strategy = "startingOffsetsByTimestampStrategy"
    return SourceOptions(
        client=read_client_options(values, needs_brokers=tier.mode is not TierMode.OFFLINE),
        topics=read_topic_choice(values),
        starting=read_starting(values, default, is_streaming=is_streaming),
        ending=read_ending(values),
        starting_strategy=read_choice(strategy, values.get(strategy.lower(), "error"), ("error", "latest")),
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_ms=read_duration_ms("maxTriggerDelay", values.get("maxtriggerdelay", "15m")),
        min_partitions=numbers["minPartitions"],
        max_records_per_partition=numbers["maxRecordsPerPartition"],
        fail_on_data_loss=read_bool("failOnDataLoss", values.get("failondataloss", "true")),
        include_headers=read_bool("includeHeaders", values.get("includeheaders", "false")),
        poll_timeout_ms=_number(values, "kafkaConsumer.pollTimeoutMs") or 120_000,
        fetch_offset_retries=read_number("fetchOffset.numRetries", values.get("fetchoffset.numretries", "3")),
        fetch_offset_retry_interval_ms=read_number(
            "fetchOffset.retryIntervalMs", values.get("fetchoffset.retryintervalms", "1000")
        ),
        tier=tier,
        pushes_filters=read_bool(PUSHDOWN, values.get(PUSHDOWN, "false")),
    )


def _require_absent(values: Mapping[str, str], options: Iterable[str], why: str) -> None:
    for option in options:
        if option.lower() in values:
            raise OptionError(f"Invalid option: {option}={values[option.lower()]!r}; {why}")


def _number(values: Mapping[str, str], option: str) -> int | None:
    text = values.get(option.lower())
    return None if text is None else read_number(option, text, 1)
