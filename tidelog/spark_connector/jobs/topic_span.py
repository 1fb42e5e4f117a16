"""Finds the offsets that a job reads, before Spark starts, so that errors are reported at once.

I/O: blocks. Errors: OptionError for options; JobFailure if a topic does not exist; KafkaError if brokers
do not respond.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import TopicPartition
from tidelog.spark_connector.jobs.failures import JobFailure
from tidelog.spark_connector.planning.offset_specs import AtTimestamp, Bound
from tidelog.spark_connector.planning.offsets_json import Offsets
from tidelog.spark_connector.planning.option_values import OptionError
from tidelog.spark_connector.planning.source_options import SourceOptions, read_source_options
from tidelog.spark_connector.planning.tier_options import TierMode
from tidelog.spark_connector.reading.offset_source import OffsetSource, offset_source

# A user waits at the terminal: report an unreachable cluster soon.
_RESPONSE_TIMEOUT_MS: Final = 10_000
_SERVERS: Final = "kafka.bootstrap.servers"
_OPTIONS_OF_JOBS: Final = frozenset(
    {
        _SERVERS,
        "subscribe",
        "subscribepattern",
        "assign",
        "startingoffsets",
        "startingoffsetsbytimestamp",
        "startingtimestamp",
        "startingoffsetsbytimestampstrategy",
        "endingoffsets",
        "endingoffsetsbytimestamp",
        "endingtimestamp",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSource:
    """The topics that a job reads, and more options of the source."""

    servers: str
    topics: tuple[str, ...]
    options: Mapping[str, str]

    def __post_init__(self) -> None:
        for name in self.options:
            if name.lower() in _OPTIONS_OF_JOBS:
                raise OptionError(f"option {name} is set by the job: it cannot be specified")

    @property
    def is_offline(self) -> bool:
        """Whether the topics are read from the bucket alone."""
        return self.options.get("tier") == TierMode.OFFLINE

    def reader_options(self, **own: str) -> dict[str, str]:
        """Return options for `format("tidelog")`, without the choice of partitions."""
        return {_SERVERS: self.servers, **self.options, **own}


@dataclass(frozen=True, slots=True)
class TopicSpan:
    """The start and end offset of each partition; the end is exclusive and never below the start.

    `topic_ids` are by name; they distinguish a topic from a deleted one with the same name.
    """

    starts: Offsets
    ends: Offsets
    topic_ids: Mapping[str, UUID]

    @property
    def size(self) -> int:
        """The number of all offsets; there may be fewer records."""
        return sum(self.ends[one] - start for one, start in self.starts.items())


def find_span(
    source: TopicSource, from_ms: int | None, to_ms: int | None, resume_offsets: Offsets
) -> TopicSpan:
    """Find the offsets from the first record at or after `from_ms` to the first at or after `to_ms`.

    None means no limit. Partitions in `read_before` continue there instead of at `from_ms`. Raise JobFailure
    if they end before it.
    """
    start = Bound.EARLIEST if from_ms is None else AtTimestamp("from", from_ms)
    end = Bound.LATEST if to_ms is None else AtTimestamp("to", to_ms)
    with offset_source(_options(source)) as offsets:
        partitions = _partitions(offsets, source)
        if resume_offsets:
            _require_not_shorter(resume_offsets, offsets.latest(partitions, {}), is_offline=source.is_offline)
        starts = offsets.resolve(start, partitions - resume_offsets.keys(), is_start=True) | resume_offsets
        ends = offsets.resolve(end, partitions, is_start=False)
        topic_ids = offsets.topic_ids(source.topics)
    # The bucket does not have partitions without copied segments.
    bounded_ends = {
        topic_partition: max(start, ends.get(topic_partition, start))
        for topic_partition, start in starts.items()
    }
    return TopicSpan(starts, bounded_ends, topic_ids)


def require_topics(source: TopicSource) -> None:
    """Raise JobFailure if a topic does not exist."""
    with offset_source(_options(source)) as offsets:
        _partitions(offsets, source)


def _options(source: TopicSource) -> SourceOptions:
    options = read_source_options(
        source.reader_options(subscribe=",".join(source.topics)), is_streaming=False
    )
    client = options.client
    client_values = {"default_api_timeout_ms": _RESPONSE_TIMEOUT_MS, **client.values}
    return replace(
        options,
        client=replace(client, values=client_values),
        fetch_offset_retries=0,
        # A partition without a record after the first time has nothing to read.
        starting_strategy="latest",
    )


def _partitions(offsets: OffsetSource, source: TopicSource) -> frozenset[TopicPartition]:
    partitions = offsets.partitions(all_must_exist=False)
    missing = sorted(set(source.topics) - {topic_partition.topic for topic_partition in partitions})
    if missing:
        location = "in the bucket" if source.is_offline else f"at {source.servers}"
        raise JobFailure(f"there is no topic {', '.join(missing)} {location}")
    return partitions


def _require_not_shorter(resume_offsets: Offsets, latest: Offsets, *, is_offline: bool) -> None:
    for topic_partition, offset in sorted(resume_offsets.items()):
        end = latest.get(topic_partition, 0)
        if end >= offset:
            continue
        if is_offline:
            raise JobFailure(
                f"{topic_partition} was read up to offset {offset} before, and the bucket has it "
                f"up to {end}: it was read through brokers then, or the topic was re-created"
            )
        raise JobFailure(
            f"{topic_partition} was read up to offset {offset} before, and ends at {end} now: "
            "the topic was re-created"
        )
