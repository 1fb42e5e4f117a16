"""Every topic-level key of Kafka 4.3: type, default, allowed values and documentation.

A synonym is the broker-level key that overrides a default.
The keys of KIP-1241 are new in Kafka 4.4. `tidelog.source` is Tidelog's own key.
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
from tidelog.base.similar_names import did_you_mean
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.config.topic_source import SOURCE_KEY, TopicSource, check_source

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
            "How old data is removed, as a comma-separated list. delete: segments are deleted by "
            "retention.ms and retention.bytes. compact: only the last record of each key is retained. "
            "Both can be combined. An empty list retains all data.",
            "log.cleanup.policy",
            valid_values=CLEANUP_POLICIES,
        ),
        _topic(
            "compression.gzip.level",
            _INT,
            -1,
            "The compression level if compression.type is gzip. -1 means the default level of the codec.",
            "compression.gzip.level",
            minimum=1,
            maximum=9,
            extra_values=(-1,),
        ),
        _topic(
            "compression.lz4.level",
            _INT,
            9,
            "The compression level if compression.type is lz4.",
            "compression.lz4.level",
            minimum=1,
            maximum=17,
        ),
        _topic(
            "compression.type",
            _STRING,
            "producer",
            "The compression codec of the stored batches. producer retains the codec of the producer, and "
            "uncompressed stores batches without compression.",
            "compression.type",
            valid_values=COMPRESSION_TYPES,
        ),
        _topic(
            "compression.zstd.level",
            _INT,
            3,
            "The compression level if compression.type is zstd.",
            "compression.zstd.level",
            minimum=-131072,
            maximum=22,
        ),
        _topic(
            "delete.retention.ms",
            _LONG,
            24 * _HOUR_MS,
            "The time in milliseconds for which a compacted log retains tombstones. A consumer that reads "
            "the log from the beginning must reach its end within this time to see all deletions.",
            "log.cleaner.delete.retention.ms",
            minimum=0,
        ),
        _topic(
            "file.delete.delay.ms",
            _LONG,
            60_000,
            "The time in milliseconds before a file is deleted that is no longer part of the log.",
            "log.segment.delete.delay.ms",
            minimum=0,
        ),
        _topic(
            "flush.messages",
            _LONG,
            _NO_LIMIT,
            "The number of records after which the log is flushed with fsync. With the default, "
            "replication provides durability, and the operating system writes the data.",
            "log.flush.interval.messages",
            minimum=1,
        ),
        _topic(
            "flush.ms",
            _LONG,
            _NO_LIMIT,
            "The time in milliseconds after which appended records are flushed with fsync. It is checked "
            "at the interval log.flush.scheduler.interval.ms.",
            "log.flush.interval.ms",
            "log.flush.scheduler.interval.ms",
            minimum=0,
        ),
        _topic(
            "follower.replication.throttled.replicas",
            _LIST,
            (),
            "The replicas whose replication is throttled on the follower, as a comma-separated list of "
            "partition:broker; * means all replicas of the topic.",
            check=_throttled_replicas,
        ),
        _topic(
            "index.interval.bytes",
            _INT,
            4096,
            "The number of bytes of records between two entries of the offset index. A smaller value "
            "makes lookups faster and the index larger.",
            "log.index.interval.bytes",
            minimum=0,
        ),
        _topic(
            "internal.segment.bytes",
            _INT,
            None,
            "The maximum size in bytes of a segment, without a lower bound, for tests.",
            internal=True,
        ),
        _topic(
            "leader.replication.throttled.replicas",
            _LIST,
            (),
            "The replicas whose replication is throttled on the leader, as a comma-separated list of "
            "partition:broker; * means all replicas of the topic.",
            check=_throttled_replicas,
        ),
        _topic(
            "local.retention.bytes",
            _LONG,
            _FOLLOW_TOTAL_RETENTION,
            "The maximum size in bytes of the local part of a tiered partition. -2 means the value of "
            "retention.bytes.",
            "log.local.retention.bytes",
            minimum=-2,
        ),
        _topic(
            "local.retention.ms",
            _LONG,
            _FOLLOW_TOTAL_RETENTION,
            "The time in milliseconds for which segments of a tiered partition are retained locally. -2 "
            "means the value of retention.ms.",
            "log.local.retention.ms",
            minimum=-2,
        ),
        _topic(
            "max.compaction.lag.ms",
            _LONG,
            _NO_LIMIT,
            "The maximum time in milliseconds before a record of a compacted log becomes eligible for "
            "compaction.",
            "log.cleaner.max.compaction.lag.ms",
            minimum=1,
        ),
        _topic(
            "max.message.bytes",
            _INT,
            1024 * 1024 + 12,
            "The maximum size in bytes of a record batch, after compression.",
            "message.max.bytes",
            minimum=0,
        ),
        _topic(
            "message.timestamp.after.max.ms",
            _LONG,
            _HOUR_MS,
            "The maximum time in milliseconds by which the timestamp of a record can be after the time of "
            "the broker. It does not apply to LogAppendTime.",
            "log.message.timestamp.after.max.ms",
            minimum=0,
        ),
        _topic(
            "message.timestamp.before.max.ms",
            _LONG,
            _NO_LIMIT,
            "The maximum time in milliseconds by which the timestamp of a record can be before the time "
            "of the broker. It does not apply to LogAppendTime.",
            "log.message.timestamp.before.max.ms",
            minimum=0,
        ),
        _topic(
            "message.timestamp.type",
            _STRING,
            "CreateTime",
            "Whether the timestamp of a record is set by the producer (CreateTime) or by the broker "
            "(LogAppendTime).",
            "log.message.timestamp.type",
            valid_values=TIMESTAMP_TYPES,
        ),
        _topic(
            "min.cleanable.dirty.ratio",
            _DOUBLE,
            0.5,
            "The minimum ratio of the size of the uncompacted part of a log to its total size at which "
            "the log is compacted. The compaction lags have priority.",
            "log.cleaner.min.cleanable.ratio",
            minimum=0,
            maximum=1,
        ),
        _topic(
            "min.compaction.lag.ms",
            _LONG,
            0,
            "The minimum time in milliseconds for which a record of a compacted log is not compacted.",
            "log.cleaner.min.compaction.lag.ms",
            minimum=0,
        ),
        _topic(
            "min.insync.replicas",
            _INT,
            1,
            "The minimum number of in-sync replicas, including the leader, for writes with acks=all.",
            "min.insync.replicas",
            minimum=1,
        ),
        _topic(
            "preallocate",
            _BOOLEAN,
            False,
            "Whether the file of a new segment is allocated with its full size. Has no effect.",
            "log.preallocate",
        ),
        _topic(
            "remote.copy.lag.bytes",
            _LONG,
            -1,
            "The number of bytes that can be appended after a closed segment before the segment is copied "
            "to remote storage. 0 copies it at once, and -1 means local.retention.bytes. A segment is "
            "copied when this limit or remote.copy.lag.ms is reached (KIP-1241).",
            "log.remote.copy.lag.bytes",
            minimum=-1,
        ),
        _topic(
            "remote.copy.lag.ms",
            _LONG,
            0,
            "The age in milliseconds that a closed segment can reach before it is copied to remote "
            "storage. 0 copies it at once, and -1 means local.retention.ms (KIP-1241).",
            "log.remote.copy.lag.ms",
            minimum=-1,
        ),
        _topic(
            "remote.log.copy.disable",
            _BOOLEAN,
            False,
            "Whether no further segments of a tiered topic are copied to remote storage. Local data is "
            "then retained by retention.ms and retention.bytes.",
        ),
        _topic(
            "remote.log.delete.on.disable",
            _BOOLEAN,
            False,
            "Whether the remote data of the topic is deleted when remote.storage.enable is set to false.",
        ),
        _topic(
            "remote.storage.enable",
            _BOOLEAN,
            False,
            "Whether closed segments of the topic are copied to remote storage. Setting it to false "
            "requires remote.log.delete.on.disable=true.",
        ),
        _topic(
            "retention.bytes",
            _LONG,
            -1,
            "The maximum size in bytes of a partition. Above it, the oldest segments are deleted. -1 "
            "means no limit.",
            "log.retention.bytes",
        ),
        _topic(
            "retention.ms",
            _LONG,
            7 * 24 * _HOUR_MS,
            "The time in milliseconds for which segments are retained. -1 means no limit.",
            "log.retention.ms",
            Synonym("log.retention.minutes", _MINUTE_MS),
            Synonym("log.retention.hours", _HOUR_MS),
            minimum=-1,
        ),
        _topic(
            "segment.bytes",
            _INT,
            1024 * 1024 * 1024,
            "The maximum size in bytes of a segment. Retention and compaction apply to whole segments.",
            "log.segment.bytes",
            minimum=1024 * 1024,
        ),
        _topic(
            "segment.index.bytes",
            _INT,
            10 * 1024 * 1024,
            "The maximum size in bytes of an offset index or a time index. A segment is rolled when one "
            "of them is full.",
            "log.index.size.max.bytes",
            minimum=4,
        ),
        _topic(
            "segment.jitter.ms",
            _LONG,
            0,
            "The maximum random time in milliseconds that is subtracted from segment.ms, so that not all "
            "segments are rolled at the same time.",
            "log.roll.jitter.ms",
            Synonym("log.roll.jitter.hours", _HOUR_MS),
            minimum=0,
        ),
        _topic(
            "segment.ms",
            _LONG,
            7 * 24 * _HOUR_MS,
            "The time in milliseconds after which the active segment is rolled, even if it is not full.",
            "log.roll.ms",
            Synonym("log.roll.hours", _HOUR_MS),
            minimum=1,
        ),
        _topic(
            SOURCE_KEY,
            _STRING,
            None,
            "The topic whose remote segments this topic reads by reference, set by tidelog tier restore --at "
            "or tidelog tier mount when the topic is created. With a mount the topic is read-only.",
            check=check_source,
            internal=True,
        ),
        _topic(
            "unclean.leader.election.enable",
            _BOOLEAN,
            False,
            "Whether a replica that is not in sync can become the leader if no in-sync replica is "
            "available. Acknowledged records can then be lost.",
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


def unknown_topic_config(key: str, text: str) -> ConfigError:
    """Return the error for an unknown key, with similar keys."""
    return ConfigError(key, text, f"there is no topic config of this name{did_you_mean(key, TOPIC_CONFIGS)}")


def _parsed(key: str, text: str) -> tuple[str, ConfigValue]:
    definition = TOPIC_CONFIGS.get(key)
    if definition is None:
        raise unknown_topic_config(key, text)
    return definition.field_name, definition.parse(text)


def _with_fields(config: LogConfig, parsed: Iterable[tuple[str, ConfigValue]]) -> LogConfig:
    fields: dict[str, Any] = dict(parsed)
    if (internal_segment_bytes := fields.pop("internal_segment_bytes", None)) is not None:
        fields["segment_bytes"] = internal_segment_bytes
    if (source := fields.get("tidelog_source")) is not None:
        fields["tidelog_source"] = TopicSource.parse(source)
    return replace(config, **fields) if fields else config
