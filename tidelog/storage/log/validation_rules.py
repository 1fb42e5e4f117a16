"""The rules for appended batches that are derived from a topic's settings."""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelog.base.dataclass import dataclass
from tidelog.protocol.batch import BatchHeader
from tidelog.protocol.compression import Compression
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.log.record_bounds import decompressed_bytes_max

_NO_LIMIT: Final = 2**63 - 1


class ValidatedBatch(NamedTuple):
    """A batch that was changed before it is stored, in another buffer if it was compressed again."""

    records: bytearray | memoryview
    header: BatchHeader


@dataclass(frozen=True, slots=True)
class ValidationRules:
    """A topic's limits, prepared once per change of its config."""

    max_message_bytes: int
    segment_bytes: int
    log_append_time: bool
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    is_compacted: bool
    stored_compression: Compression | None
    """The codec in which batches are stored; None keeps the producer's."""
    compression_level: int | None
    decompressed_bytes_max: int
    looks_at_records: bool
    """Whether the records of every batch must be read before it is stored."""
    may_open_batches: bool
    """Whether the records of a batch may have to be read, which takes long if it is large."""

    def timestamps_at(self, now_ms: int) -> tuple[int, int]:
        """Return the oldest and the newest timestamp that may be stored now."""
        return now_ms - self.timestamp_before_max_ms, now_ms + self.timestamp_after_max_ms

    @classmethod
    def of(cls, config: LogConfig) -> ValidationRules:
        """Return the rules for a topic with the settings `config`."""
        stored, level = _stored_compression(config)
        looks_at_records = config.is_compacted or config.message_timestamp_before_max_ms != _NO_LIMIT
        return cls(
            max_message_bytes=config.max_message_bytes,
            segment_bytes=config.segment_bytes,
            log_append_time=config.uses_log_append_time,
            timestamp_before_max_ms=config.message_timestamp_before_max_ms,
            timestamp_after_max_ms=config.message_timestamp_after_max_ms,
            is_compacted=config.is_compacted,
            stored_compression=stored,
            compression_level=level,
            decompressed_bytes_max=decompressed_bytes_max(config.max_message_bytes),
            looks_at_records=looks_at_records,
            may_open_batches=looks_at_records or stored is not None,
        )


def _stored_compression(config: LogConfig) -> tuple[Compression | None, int | None]:
    name = config.compression_type
    if name == "producer":
        return None, None
    if name == "uncompressed":
        return Compression.NONE, None
    levels = {
        "gzip": None if config.compression_gzip_level == -1 else config.compression_gzip_level,
        "lz4": config.compression_lz4_level,
        "zstd": config.compression_zstd_level,
    }
    return Compression.from_name(name), levels.get(name)
