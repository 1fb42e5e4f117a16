"""What a leader checks before it lets a produced batch into the log.

The header and the checksum are looked at once. Records are parsed, within a bound, only where the
header cannot answer: a compacted topic (null keys), a limit on how old timestamps may be, a change
of compression. For the rest a batch is opaque, and its header's largest timestamp is trusted.

| finding | error |
|---|---|
| no batch, several, magic 0 or 1, contradicting counts, control batch, no sequence | INVALID_RECORD |
| null key in a compacted topic, records that cannot be parsed | INVALID_RECORD |
| records that must be looked at and are more than `storage.record_bounds` allows | INVALID_RECORD |
| unknown magic, impossible length, checksum | CORRUPT_MESSAGE |
| batch > max.message.bytes | MESSAGE_TOO_LARGE |
| batch > segment.bytes | RECORD_LIST_TOO_LARGE |
| timestamp outside of before.max.ms / after.max.ms, log append time set by a client | INVALID_TIMESTAMP |

Which records are refused stands in the error (KIP-467).
Source: ProduceRequest, UnifiedLog.analyzeAndValidateRecords and LogValidator of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from protocol.batch import (
    ATTRIBUTE_COMPRESSION_MASK,
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_LOG_APPEND_TIME,
    ATTRIBUTE_TRANSACTIONAL,
    BATCH_OVERHEAD,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    crc_is_valid,
    read_header,
    set_max_timestamp,
    write_header,
)
from protocol.compression import Compression, compress
from protocol.errors import DecodeError, ErrorCode, KafkaError
from protocol.record import RECORD_BYTES_MIN, iterate_payload, read_payload
from storage.config import LogConfig
from storage.errors import InvalidRecords
from storage.record_bounds import RECORDS_MAX, decompressed_bytes_max
from storage.time_index import NO_TIMESTAMP

_NO_LIMIT: Final = 2**63 - 1
_MAGIC_AT: Final = 16
_HEADER_BYTES_IN_LENGTH: Final = BATCH_OVERHEAD - LOG_OVERHEAD
_HIGHEST_COMPRESSION: Final = int(max(Compression))
RECORD_ERRORS_MAX: Final = 1000
"""How many refused records an answer names; their batch is refused whole."""
_ERRORS_SHOWN: Final = 3
# How many bytes a byte can stand for, by codec: a batch that is not opened must not claim more offsets.
# Deflate: 258 bytes in 2 bits. Snappy: 64 in 3 bytes. LZ4: 255 in one. Zstandard: 128 KiB in a block of 4.
_EXPANSION_MAX: Final = (1, 1032, 22, 255, 32768)
_NO_TIMESTAMPS: Final = (-_NO_LIMIT - 1, _NO_LIMIT)


class AppendOrigin(Enum):
    """Who wrote a batch, which decides how far it is trusted."""

    REPLICATION = 0
    """A leader: offsets are given, nothing but the checksum is checked."""
    COORDINATOR = 1
    """A coordinator of this broker: control batches are allowed."""
    CLIENT = 2
    """A produce request."""
    RAFT = 3
    """The metadata quorum's leader: offsets and epochs are given and must be right."""


# To look a member up in its enum takes 70 ns, which counts where it is done for every batch.
_CLIENT: Final = AppendOrigin.CLIENT


class ValidatedBatch(NamedTuple):
    """A batch that was changed before it is stored, in another buffer if it had to be compressed anew."""

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
    """The codec batches are stored in; None keeps the producer's."""
    compression_level: int | None
    decompressed_bytes_max: int
    looks_at_records: bool
    """Whether headers alone cannot tell if a batch may be stored."""

    def timestamps_at(self, now_ms: int) -> tuple[int, int]:
        """The oldest and the newest timestamp that may be stored now."""
        return now_ms - self.timestamp_before_max_ms, now_ms + self.timestamp_after_max_ms

    @classmethod
    def of(cls, config: LogConfig) -> ValidationRules:
        """The rules that `config` means."""
        stored, level = _stored_compression(config)
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
            looks_at_records=config.is_compacted or config.message_timestamp_before_max_ms != _NO_LIMIT,
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


def read_single_batch(records: bytearray | memoryview) -> BatchHeader:
    """The header of the one batch in `records`, all of which is there.

    A torn piece behind it is tolerated, as Kafka does; the caller cuts it off.
    Errors: KafkaError INVALID_RECORD or CORRUPT_MESSAGE.
    """
    try:
        header = read_header(records)
    except DecodeError as error:
        raise KafkaError(_header_error_code(records), str(error)) from error
    size_bytes = LOG_OVERHEAD + header.batch_length
    available = len(records)
    if size_bytes != available:
        if size_bytes > available:
            raise KafkaError(
                ErrorCode.INVALID_RECORD, f"{available} of the {size_bytes} bytes of the batch are there"
            )
        _refuse_second_batch(records, size_bytes)
    return header


def _header_error_code(records: bytearray | memoryview) -> ErrorCode:
    if len(records) < BATCH_OVERHEAD:
        return ErrorCode.INVALID_RECORD
    length = int.from_bytes(records[8:LOG_OVERHEAD], "big", signed=True)
    if length < BATCH_OVERHEAD - LOG_OVERHEAD or records[_MAGIC_AT] > MAGIC:
        return ErrorCode.CORRUPT_MESSAGE
    return ErrorCode.INVALID_RECORD


def _refuse_second_batch(records: bytearray | memoryview, end: int) -> None:
    rest = len(records) - end
    if rest <= _MAGIC_AT:
        return
    length = int.from_bytes(records[end + 8 : end + LOG_OVERHEAD], "big", signed=True)
    if length < 0:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch length of {length} follows the first batch")
    if LOG_OVERHEAD + length <= rest:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, "a produce request holds exactly one batch per partition, here are more"
        )


def validate_batch(
    records: bytearray | memoryview,
    header: BatchHeader,
    rules: ValidationRules,
    origin: AppendOrigin,
    now_ms: int,
) -> ValidatedBatch | None:
    """Check one whole batch; what to store instead of it, None when it is stored as it came.

    Where the topic's timestamps are the broker's time, they are set in place.
    Errors: KafkaError, see the table above.
    """
    # Unpacked, because each field of a named tuple costs more than all of them at once.
    base_offset, length, _, _, crc, attributes, last_delta, _, newest, producer_id, _, sequence, count = (
        header
    )
    size_bytes = LOG_OVERHEAD + length
    from_client = origin is _CLIENT
    if from_client and base_offset != 0:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"base offset is {base_offset}, clients send 0")
    if size_bytes > rules.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"batch of {size_bytes} bytes, max.message.bytes is {rules.max_message_bytes}",
        )
    if not crc_is_valid(records, 0, header):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"checksum {crc:#010x} of the batch does not hold")
    codec = attributes & ATTRIBUTE_COMPRESSION_MASK
    if codec > _HIGHEST_COMPRESSION:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"compression {codec} is unknown")
    if from_client and (
        last_delta + 1 != count
        or count * RECORD_BYTES_MIN > length - _HEADER_BYTES_IN_LENGTH
        or attributes & ATTRIBUTE_CONTROL
        or producer_id >= 0 > sequence
        or count <= 0
    ):
        _check_client_header(header)
    stored = rules.stored_compression
    must_recompress = stored is not None and stored != codec and not attributes & ATTRIBUTE_CONTROL
    if rules.log_append_time:
        return _with_log_append_time(records, header, rules, now_ms, must_recompress)
    if newest > now_ms + rules.timestamp_after_max_ms:
        raise _timestamp_error(records, header, rules, now_ms)
    if must_recompress or rules.looks_at_records or attributes & ATTRIBUTE_LOG_APPEND_TIME:
        return _with_create_time(records, header, rules, now_ms, must_recompress)
    return None


def _check_client_header(header: BatchHeader) -> None:
    """What of a header may be wrong, once something looks odd; many records may just be well compressed."""
    count = header.record_count
    if count <= 0 or header.last_offset_delta + 1 != count:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"record count {count} contradicts the last offset delta {header.last_offset_delta}",
        )
    payload_bytes = header.batch_length - _HEADER_BYTES_IN_LENGTH
    expansion_max = _EXPANSION_MAX[header.attributes & ATTRIBUTE_COMPRESSION_MASK]
    if count * RECORD_BYTES_MIN > payload_bytes * expansion_max:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{count} records cannot stand in {payload_bytes} bytes")
    if header.attributes & ATTRIBUTE_CONTROL:
        raise KafkaError(ErrorCode.INVALID_RECORD, "clients may not write control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"sequence {header.base_sequence} in a batch of producer {header.producer_id}",
        )


def _with_create_time(
    records: bytearray | memoryview,
    header: BatchHeader,
    rules: ValidationRules,
    now_ms: int,
    must_recompress: bool,
) -> ValidatedBatch:
    newest = header.max_timestamp
    if header.attributes & ATTRIBUTE_LOG_APPEND_TIME:
        if newest == NO_TIMESTAMP:
            raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "a producer may not set log append time")
        set_max_timestamp(records, 0, newest, log_append_time=False)
        header = read_header(records)
    if rules.looks_at_records or must_recompress:
        payload = _payload(records, header, rules)
        actual_newest = _check_records(payload, header, rules, now_ms)
        if must_recompress:
            return _recompressed(payload, header, rules, actual_newest, log_append_time=False)
        if actual_newest != newest:
            set_max_timestamp(records, 0, actual_newest, log_append_time=False)
            header = read_header(records)
    return ValidatedBatch(records, header)


def _with_log_append_time(
    records: bytearray | memoryview,
    header: BatchHeader,
    rules: ValidationRules,
    now_ms: int,
    must_recompress: bool,
) -> ValidatedBatch:
    if header.attributes & ATTRIBUTE_LOG_APPEND_TIME:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "a producer may not set log append time")
    if rules.is_compacted or must_recompress:
        payload = _payload(records, header, rules)
        _check_records(payload, header, rules, None)
        if must_recompress:
            return _recompressed(payload, header, rules, now_ms, log_append_time=True)
    set_max_timestamp(records, 0, now_ms, log_append_time=True)
    return ValidatedBatch(records, read_header(records))


def _payload(records: bytearray | memoryview, header: BatchHeader, rules: ValidationRules) -> bytes:
    if header.record_count > RECORDS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"{header.record_count} records in a batch that has to be looked into, at most {RECORDS_MAX} are",
        )
    try:
        return read_payload(records, 0, header, rules.decompressed_bytes_max)
    except DecodeError as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, str(error)) from error


def _check_records(payload: bytes, header: BatchHeader, rules: ValidationRules, now_ms: int | None) -> int:
    """Look at every record, one at a time; the largest timestamp. `now_ms` None: timestamps do not count."""
    bad: list[tuple[int, int | None]] = []  # index in the batch, and its timestamp if that is what is bad
    needs_key = rules.is_compacted
    oldest, newest = _NO_TIMESTAMPS if now_ms is None else rules.timestamps_at(now_ms)
    largest = NO_TIMESTAMP
    try:
        for index, (_, timestamp, key, _, _) in enumerate(iterate_payload(payload, header)):
            largest = max(largest, timestamp)
            if needs_key and key is None:
                bad.append((index, None))
            elif not oldest <= timestamp <= newest and timestamp != NO_TIMESTAMP:
                bad.append((index, timestamp))
    except DecodeError as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, str(error)) from error
    if bad:
        raise _invalid_records(bad, (oldest, newest))
    return largest


def _invalid_records(bad: Sequence[tuple[int, int | None]], allowed: tuple[int, int]) -> InvalidRecords:
    """What is wrong with each of the `bad` records, or with the first RECORD_ERRORS_MAX of them."""
    errors = [
        (index, "no key, in a compacted topic" if timestamp is None else _out_of_range(timestamp, allowed))
        for index, timestamp in bad[:RECORD_ERRORS_MAX]
    ]
    code = ErrorCode.INVALID_RECORD
    if any(timestamp is not None for _, timestamp in bad):
        code = ErrorCode.INVALID_TIMESTAMP
    shown = "; ".join(f"record {index}: {text}" for index, text in errors[:_ERRORS_SHOWN])
    return InvalidRecords(code, f"{len(bad)} of the records are refused, {shown}", errors)


def _out_of_range(timestamp: int, allowed: tuple[int, int]) -> str:
    return f"timestamp {timestamp} ms is not within {allowed[0]} and {allowed[1]}"


def _timestamp_error(
    records: bytearray | memoryview, header: BatchHeader, rules: ValidationRules, now_ms: int
) -> KafkaError:
    """Why a batch with a timestamp that is too late is refused: its records say which of them it is."""
    allowed = rules.timestamps_at(now_ms)
    try:
        _check_records(_payload(records, header, rules), header, rules, now_ms)
    except InvalidRecords as error:
        return error
    except KafkaError:
        pass  # they cannot be looked at
    return KafkaError(ErrorCode.INVALID_TIMESTAMP, _out_of_range(header.max_timestamp, allowed))


def _recompressed(
    payload: bytes, header: BatchHeader, rules: ValidationRules, newest: int, *, log_append_time: bool
) -> ValidatedBatch:
    """The same records in the topic's codec: they read the same, so they need not be written one by one."""
    codec = rules.stored_compression
    assert codec is not None
    rebuilt = bytearray(BATCH_OVERHEAD)
    rebuilt += compress(codec, payload, rules.compression_level)
    attributes = codec | header.attributes & ATTRIBUTE_TRANSACTIONAL
    if log_append_time:
        attributes |= ATTRIBUTE_LOG_APPEND_TIME
    header = header._replace(
        batch_length=len(rebuilt) - LOG_OVERHEAD, attributes=attributes, max_timestamp=newest
    )
    write_header(rebuilt, 0, header)
    if len(rebuilt) > rules.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"batch of {len(rebuilt)} bytes once it is stored as {codec.name.lower()}, "
            f"max.message.bytes is {rules.max_message_bytes}",
        )
    return ValidatedBatch(rebuilt, read_header(rebuilt))
