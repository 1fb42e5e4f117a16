"""Every topic-level key of Kafka 4.3: type, default, allowed values and documentation.

A synonym is the broker-level key that overrides a default.
The keys of KIP-1241 are new in Kafka 4.4.
Source: org.apache.kafka.storage.internals.log.LogConfig and ServerTopicConfigSynonyms of 4.3.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, cast

from tidelog.base.config_definition import (
    ConfigDefinition,
    ConfigError,
    ConfigKind,
    ConfigValue,
    Synonym,
    table,
)
from tidelog.storage.config.log_config import LogConfig

_HOUR_MS: Final = 3_600_000
_MINUTE_MS: Final = 60_000
_NO_LIMIT: Final = 2**63 - 1
_FOLLOW_TOTAL_RETENTION: Final = -2

_THROTTLED_REPLICA: Final = re.compile(r"[0-9]+:[0-9]+")


def _throttled_replicas(value: ConfigValue) -> str | None:
    assert isinstance(value, tuple)
    if value == ("*",) or all(_THROTTLED_REPLICA.fullmatch(item) for item in value):
        return None
    return "allowed is * or a list of partition:broker pairs, such as 0:1,1:2"


_BOOLEAN, _INT, _LONG = ConfigKind.BOOLEAN, ConfigKind.INT, ConfigKind.LONG
_DOUBLE, _STRING, _LIST = ConfigKind.DOUBLE, ConfigKind.STRING, ConfigKind.LIST


def _topic(
    key: str, kind: ConfigKind, default: ConfigValue, text: str, *synonyms: str | Synonym, **limits: Any
) -> ConfigDefinition:
    return ConfigDefinition(
        key=key,
        kind=kind,
        default=default,
        documentation=text,
        synonyms=tuple(Synonym(s) if isinstance(s, str) else s for s in synonyms),
        **limits,
    )


COMPRESSION_TYPES: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")
CLEANUP_POLICIES: Final = ("compact", "delete")

TOPIC_CONFIGS: Final[Mapping[str, ConfigDefinition]] = table(
    (
        _topic(
            "cleanup.policy",
            _LIST,
            ("delete",),
            "What happens to old segments: 'delete' removes them by age and size, 'compact' keeps the "
            "latest value of each key, both together do both, and an empty list keeps everything.",
            "log.cleanup.policy",
            valid_values=CLEANUP_POLICIES,
        ),
        _topic(
            "compression.gzip.level",
            _INT,
            -1,
            "Level at which the broker compresses when compression.type is gzip; -1 is the codec's own.",
            "compression.gzip.level",
            minimum=1,
            maximum=9,
            extra_values=(-1,),
        ),
        _topic(
            "compression.lz4.level",
            _INT,
            9,
            "Level at which the broker compresses when compression.type is lz4.",
            "compression.lz4.level",
            minimum=1,
            maximum=17,
        ),
        _topic(
            "compression.type",
            _STRING,
            "producer",
            "Codec in which batches are stored; 'producer' keeps what the producer chose and "
            "'uncompressed' stores plain records.",
            "compression.type",
            valid_values=COMPRESSION_TYPES,
        ),
        _topic(
            "compression.zstd.level",
            _INT,
            3,
            "Level at which the broker compresses when compression.type is zstd.",
            "compression.zstd.level",
            minimum=-131072,
            maximum=22,
        ),
        _topic(
            "delete.retention.ms",
            _LONG,
            24 * _HOUR_MS,
            "How long a compacted log keeps tombstones, and so how long a reader that starts at the "
            "beginning may take without missing a deletion.",
            "log.cleaner.delete.retention.ms",
            minimum=0,
        ),
        _topic(
            "file.delete.delay.ms",
            _LONG,
            60_000,
            "How long a file that is no longer part of the log stays on disk before it is removed.",
            "log.segment.delete.delay.ms",
            minimum=0,
        ),
        _topic(
            "flush.messages",
            _LONG,
            _NO_LIMIT,
            "Number of records after which the log is forced to disk; the default leaves it to the "
            "operating system and to replication.",
            "log.flush.interval.messages",
            minimum=1,
        ),
        _topic(
            "flush.ms",
            _LONG,
            _NO_LIMIT,
            "Time after which appended records are forced to disk, checked every "
            "log.flush.scheduler.interval.ms.",
            "log.flush.interval.ms",
            "log.flush.scheduler.interval.ms",
            minimum=0,
        ),
        _topic(
            "follower.replication.throttled.replicas",
            _LIST,
            (),
            "Replicas whose fetching is held to the follower's replication rate: partition:broker "
            "pairs, or * for all.",
            check=_throttled_replicas,
        ),
        _topic(
            "index.interval.bytes",
            _INT,
            4096,
            "Bytes of log between two entries of the offset index: smaller finds positions more "
            "exactly and makes the index larger.",
            "log.index.interval.bytes",
            minimum=0,
        ),
        _topic(
            "internal.segment.bytes",
            _INT,
            None,
            "Segment size without the lower bound of segment.bytes, for tests.",
            internal=True,
        ),
        _topic(
            "leader.replication.throttled.replicas",
            _LIST,
            (),
            "Replicas to which the leader sends at its replication rate at most: partition:broker "
            "pairs, or * for all.",
            check=_throttled_replicas,
        ),
        _topic(
            "local.retention.bytes",
            _LONG,
            _FOLLOW_TOTAL_RETENTION,
            "Size to which the local part of a tiered partition is held; -2 means retention.bytes.",
            "log.local.retention.bytes",
            minimum=-2,
        ),
        _topic(
            "local.retention.ms",
            _LONG,
            _FOLLOW_TOTAL_RETENTION,
            "Age to which the local part of a tiered partition is held; -2 means retention.ms.",
            "log.local.retention.ms",
            minimum=-2,
        ),
        _topic(
            "max.compaction.lag.ms",
            _LONG,
            _NO_LIMIT,
            "Longest time for which a record of a compacted log may wait for compaction.",
            "log.cleaner.max.compaction.lag.ms",
            minimum=1,
        ),
        _topic(
            "max.message.bytes",
            _INT,
            1024 * 1024 + 12,
            "Largest record batch that is accepted, measured as stored (compressed).",
            "message.max.bytes",
            minimum=0,
        ),
        _topic(
            "message.timestamp.after.max.ms",
            _LONG,
            _HOUR_MS,
            "How far a producer's timestamp may lie after the broker's clock; not applied to LogAppendTime.",
            "log.message.timestamp.after.max.ms",
            minimum=0,
        ),
        _topic(
            "message.timestamp.before.max.ms",
            _LONG,
            _NO_LIMIT,
            "How far a producer's timestamp may lie before the broker's clock; not applied to LogAppendTime.",
            "log.message.timestamp.before.max.ms",
            minimum=0,
        ),
        _topic(
            "message.timestamp.type",
            _STRING,
            "CreateTime",
            "Whose clock stamps records: the producer's (CreateTime) or the broker's (LogAppendTime).",
            "log.message.timestamp.type",
            valid_values=TIMESTAMP_TYPES,
        ),
        _topic(
            "min.cleanable.dirty.ratio",
            _DOUBLE,
            0.5,
            "Share of a log that must be uncompacted before it is compacted again, unless the "
            "compaction lags say otherwise.",
            "log.cleaner.min.cleanable.ratio",
            minimum=0,
            maximum=1,
        ),
        _topic(
            "min.compaction.lag.ms",
            _LONG,
            0,
            "Time for which a record of a compacted log is safe from compaction.",
            "log.cleaner.min.compaction.lag.ms",
            minimum=0,
        ),
        _topic(
            "min.insync.replicas",
            _INT,
            1,
            "In-sync replicas, leader included, without which a write with acks=all is refused.",
            "min.insync.replicas",
            minimum=1,
        ),
        _topic(
            "preallocate",
            _BOOLEAN,
            False,
            "Whether the file of a new segment gets its full size at once.",
            "log.preallocate",
        ),
        _topic(
            "remote.copy.lag.bytes",
            _LONG,
            -1,
            "Bytes that may be written behind a sealed segment before it is copied to remote storage; 0 "
            "copies at once and -1 waits as long as local retention allows (KIP-1241). A segment is copied "
            "when this or remote.copy.lag.ms is reached.",
            "log.remote.copy.lag.bytes",
            minimum=-1,
        ),
        _topic(
            "remote.copy.lag.ms",
            _LONG,
            0,
            "Age that a sealed segment may reach before it is copied to remote storage; 0 copies at once "
            "and -1 waits as long as local retention allows (KIP-1241).",
            "log.remote.copy.lag.ms",
            minimum=-1,
        ),
        _topic(
            "remote.log.copy.disable",
            _BOOLEAN,
            False,
            "Makes the remote part of a tiered topic read-only: nothing more is copied, and local "
            "data follows the total retention.",
        ),
        _topic(
            "remote.log.delete.on.disable",
            _BOOLEAN,
            False,
            "Agrees to the deletion of remote data when remote.storage.enable is switched off.",
        ),
        _topic(
            "remote.storage.enable",
            _BOOLEAN,
            False,
            "Whether sealed segments are copied to remote storage; switching it off requires "
            "remote.log.delete.on.disable.",
        ),
        _topic(
            "retention.bytes",
            _LONG,
            -1,
            "Size per partition above which the oldest segments are removed; -1 means no limit.",
            "log.retention.bytes",
        ),
        _topic(
            "retention.ms",
            _LONG,
            7 * 24 * _HOUR_MS,
            "Age at which segments are removed; -1 means no limit.",
            "log.retention.ms",
            Synonym("log.retention.minutes", _MINUTE_MS),
            Synonym("log.retention.hours", _HOUR_MS),
            minimum=-1,
        ),
        _topic(
            "segment.bytes",
            _INT,
            1024 * 1024 * 1024,
            "Size at which a segment is sealed and the next one begun; retention and compaction work "
            "on whole segments.",
            "log.segment.bytes",
            minimum=1024 * 1024,
        ),
        _topic(
            "segment.index.bytes",
            _INT,
            10 * 1024 * 1024,
            "Size at which an offset or time index counts as full, which seals the segment.",
            "log.index.size.max.bytes",
            minimum=4,
        ),
        _topic(
            "segment.jitter.ms",
            _LONG,
            0,
            "Largest random share taken off segment.ms, so that segments do not all roll at once.",
            "log.roll.jitter.ms",
            Synonym("log.roll.jitter.hours", _HOUR_MS),
            minimum=0,
        ),
        _topic(
            "segment.ms",
            _LONG,
            7 * 24 * _HOUR_MS,
            "Age at which a segment is sealed even if it is not full.",
            "log.roll.ms",
            Synonym("log.roll.hours", _HOUR_MS),
            minimum=1,
        ),
        _topic(
            "unclean.leader.election.enable",
            _BOOLEAN,
            False,
            "Whether a replica outside the in-sync set may lead when no other is left, at the price "
            "of lost records.",
            "unclean.leader.election.enable",
        ),
    )
)


DEFAULT_LOG_CONFIG: Final = LogConfig(
    **{each.field_name: cast(Any, each.default) for each in TOPIC_CONFIGS.values() if not each.internal}
)
"""The settings of a topic without configs, on a broker without configs."""


def log_config_from(values: Mapping[str, str], defaults: LogConfig | None = None) -> LogConfig:
    """Return `defaults` (None: those of Kafka) with `values`, a mapping of keys to texts.

    `internal.segment.bytes`, Kafka's test-only key, overrides `segment.bytes` without its bound.
    Errors: ConfigError for an unknown key, a bad value, or values that contradict each other.
    """
    parsed = [_parsed(key, text) for key, text in values.items()]
    config = _with_fields(defaults or DEFAULT_LOG_CONFIG, parsed)
    config.check_compaction_lags()
    return config


def usable_log_config(
    values: Mapping[str, str], defaults: LogConfig = DEFAULT_LOG_CONFIG
) -> tuple[LogConfig, list[ConfigError]]:
    """Return `defaults` with the valid ones of `values`, and the errors of the others.

    An existing topic may have configs of a later version, or configs that contradict the current defaults.
    """
    parsed: list[tuple[str, ConfigValue]] = []
    errors: list[ConfigError] = []
    for key, text in values.items():
        try:
            parsed.append(_parsed(key, text))
        except ConfigError as error:
            errors.append(error)
    return _with_fields(defaults, parsed), errors


def _parsed(key: str, text: str) -> tuple[str, ConfigValue]:
    definition = TOPIC_CONFIGS.get(key)
    if definition is None:
        raise ConfigError(key, text, "there is no topic config of this name")
    return definition.field_name, definition.parse(text)


def _with_fields(config: LogConfig, parsed: Iterable[tuple[str, ConfigValue]]) -> LogConfig:
    fields: dict[str, Any] = dict(parsed)
    if (internal_segment_bytes := fields.pop("internal_segment_bytes", None)) is not None:
        fields["segment_bytes"] = internal_segment_bytes
    return replace(config, **fields) if fields else config
