"""Reading the records of a produced batch before it is appended: keys, timestamps, another compression.

This is done in steps, as a batch of a few KiB may contain half a million records. Large batches are expanded
and compressed in threads, a few at a time. This bounds the memory to a few times
`ValidationRules.decompressed_bytes_max`.

Errors: KafkaError, see the table in `tidelog.storage.log.validation`.
Source: LogValidator of Apache Kafka 4.3; KIP-467 (which records are rejected).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from tidelog.protocol.batch import (
    ATTRIBUTE_LOG_APPEND_TIME,
    ATTRIBUTE_TRANSACTIONAL,
    BATCH_OVERHEAD,
    LOG_OVERHEAD,
    BatchHeader,
    read_header,
    set_max_timestamp,
    write_header,
)
from tidelog.protocol.compression import BoundExceeded, Compression, compress_view, decompress, expand
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.record import RECORD_BYTES_MIN
from tidelog.protocol.record_skim import RecordSkimmer, Skimmed
from tidelog.protocol.steps import Steps, as_heavy_work, in_thread, run_steps
from tidelog.storage.disk.errors import InvalidRecords
from tidelog.storage.log.record_bounds import RECORDS_MAX, SMALL_BYTES
from tidelog.storage.log.validation_rules import ValidatedBatch, ValidationRules
from tidelog.storage.segment.time_index import NO_TIMESTAMP

T = TypeVar("T")

RECORD_ERRORS_MAX: Final = 1000
"""How many rejected records a response names; their batch is rejected as a whole."""
SMALL_RECORDS: Final = 1000
_ERRORS_SHOWN: Final = 3
_ALL_TIMESTAMPS: Final = (-(2**63), 2**63 - 1)


def with_create_time(
    records: bytearray | memoryview,
    header: BatchHeader,
    rules: ValidationRules,
    now_ms: int,
    must_recompress: bool,
) -> Steps[ValidatedBatch]:
    """Check a batch whose timestamps are the producer's; return what to store."""
    newest = header.max_timestamp
    if header.attributes & ATTRIBUTE_LOG_APPEND_TIME:
        if newest == NO_TIMESTAMP:
            raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "a producer may not set log append time")
        set_max_timestamp(records, 0, newest, log_append_time=False)
        header = read_header(records)
    if not rules.looks_at_records and not must_recompress:
        return ValidatedBatch(records, header)

    def look_into(payload: memoryview) -> Steps[ValidatedBatch]:
        actual_newest = yield from check_records(payload, header, rules, now_ms)
        if must_recompress:
            return (yield from _recompressed(payload, header, rules, actual_newest, log_append_time=False))
        if actual_newest != newest:
            set_max_timestamp(records, 0, actual_newest, log_append_time=False)
        return ValidatedBatch(records, read_header(records))

    return (yield from _opened(records, header, rules, look_into, is_recompressed=must_recompress))


def with_log_append_time(
    records: bytearray | memoryview,
    header: BatchHeader,
    rules: ValidationRules,
    now_ms: int,
    must_recompress: bool,
) -> Steps[ValidatedBatch]:
    """Check a batch that gets the broker's time as its timestamp; return what to store."""
    if header.attributes & ATTRIBUTE_LOG_APPEND_TIME:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "a producer may not set log append time")

    def look_into(payload: memoryview) -> Steps[ValidatedBatch | None]:
        yield from check_records(payload, header, rules, None)
        if not must_recompress:
            return None
        return (yield from _recompressed(payload, header, rules, now_ms, log_append_time=True))

    if rules.is_compacted or must_recompress:
        recompressed = yield from _opened(records, header, rules, look_into, is_recompressed=must_recompress)
        if recompressed is not None:
            return recompressed
    set_max_timestamp(records, 0, now_ms, log_append_time=True)
    return ValidatedBatch(records, read_header(records))


def timestamp_error(
    records: bytearray | memoryview, header: BatchHeader, rules: ValidationRules, now_ms: int
) -> KafkaError:
    """Return the error for a batch with a timestamp that is too late; it names records of a small batch."""
    allowed = rules.timestamps_at(now_ms)
    if header.record_count <= SMALL_RECORDS:
        try:
            payload = _small_payload(records, header)
            if payload is not None:
                run_steps(check_records(payload, header, rules, now_ms))
        except InvalidRecords as error:
            return error
        except KafkaError:
            pass  # the records cannot be read
    return KafkaError(ErrorCode.INVALID_TIMESTAMP, _out_of_range(header.max_timestamp, allowed))


# -- the records of a batch, expanded


def _opened(
    records: bytearray | memoryview,
    header: BatchHeader,
    rules: ValidationRules,
    look_into: Callable[[memoryview], Steps[T]],
    *,
    is_recompressed: bool,
) -> Steps[T]:
    """Return the result of `look_into` for the expanded records."""
    if header.record_count > RECORDS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"{header.record_count} records in a batch that must be read, at most {RECORDS_MAX} are allowed",
        )
    payload = _small_payload(records, header)
    if payload is None:
        return (yield from as_heavy_work(_opened_in_thread(records, header, rules, look_into)))
    if is_recompressed and len(payload) > SMALL_BYTES:
        return (yield from as_heavy_work(look_into(payload)))
    return (yield from look_into(payload))


def _opened_in_thread(
    records: bytearray | memoryview,
    header: BatchHeader,
    rules: ValidationRules,
    look_into: Callable[[memoryview], Steps[T]],
) -> Steps[T]:
    # A copy: the connection may use its buffer for another request before the thread has finished.
    compressed, codec = bytes(_payload_of(records, header)), header.compression
    try:
        payload = yield from in_thread(lambda: expand(codec, compressed, rules.decompressed_bytes_max))
    except DecodeError as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, str(error)) from error
    return (yield from look_into(_checked_size(payload, header)))


def _small_payload(records: bytearray | memoryview, header: BatchHeader) -> memoryview | None:
    """Return the expanded records; None if it takes long to expand them."""
    payload, codec = _payload_of(records, header), header.compression
    if codec is Compression.NONE:
        return _checked_size(payload, header)
    if len(payload) > SMALL_BYTES:
        return None
    try:
        return _checked_size(memoryview(decompress(codec, payload, SMALL_BYTES)), header)
    except BoundExceeded:
        return None
    except DecodeError as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, str(error)) from error


def _payload_of(records: bytearray | memoryview, header: BatchHeader) -> memoryview:
    return memoryview(records)[BATCH_OVERHEAD : header.batch_length + LOG_OVERHEAD]


def _checked_size(payload: memoryview, header: BatchHeader) -> memoryview:
    if header.record_count * RECORD_BYTES_MIN > len(payload):
        text = f"{header.record_count} records do not fit in {len(payload)} bytes"
        raise KafkaError(ErrorCode.INVALID_RECORD, text)
    return payload


# -- checking the records


def check_records(
    payload: memoryview, header: BatchHeader, rules: ValidationRules, now_ms: int | None
) -> Steps[int]:
    """Check every record and return the largest timestamp; with `now_ms` None timestamps are not limited."""
    bad = _BadRecords(rules, now_ms)
    skimmer = RecordSkimmer(payload, header)
    largest = NO_TIMESTAMP
    try:
        while not skimmer.is_at_end:
            skimmed = yield from skimmer.skim()
            largest = max(largest, *skimmed.timestamps)
            bad.look_at(skimmed)
            yield None
    except DecodeError as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, str(error)) from error
    bad.refuse_any()
    return largest


class _BadRecords:
    """The invalid records of a batch: their number, and the first RECORD_ERRORS_MAX of them."""

    def __init__(self, rules: ValidationRules, now_ms: int | None) -> None:
        self._needs_key = rules.is_compacted
        self._allowed = _ALL_TIMESTAMPS if now_ms is None else rules.timestamps_at(now_ms)
        self._errors: list[tuple[int, str]] = []
        self._count = 0
        self._code = ErrorCode.INVALID_RECORD

    def look_at(self, skimmed: Skimmed) -> None:
        """Add the invalid records of `skimmed`."""
        oldest, newest = self._allowed
        without_key = skimmed.without_key if self._needs_key else ()
        if not without_key and oldest <= min(skimmed.timestamps) and max(skimmed.timestamps) <= newest:
            return
        keyless = frozenset(without_key)
        for index, timestamp in enumerate(skimmed.timestamps, skimmed.first_index):
            if index in keyless:
                self._add(index, None)
            elif not oldest <= timestamp <= newest and timestamp != NO_TIMESTAMP:
                self._code = ErrorCode.INVALID_TIMESTAMP
                self._add(index, timestamp)

    def _add(self, index: int, timestamp: int | None) -> None:
        self._count += 1
        if len(self._errors) < RECORD_ERRORS_MAX:
            bad_key = "no key, in a compacted topic"
            text = bad_key if timestamp is None else _out_of_range(timestamp, self._allowed)
            self._errors.append((index, text))

    def refuse_any(self) -> None:
        """Raise InvalidRecords if there is an invalid record."""
        if self._count:
            shown = "; ".join(f"record {index}: {text}" for index, text in self._errors[:_ERRORS_SHOWN])
            text = f"{self._count} of the records are invalid: {shown}"
            raise InvalidRecords(self._code, text, self._errors)


def _out_of_range(timestamp: int, allowed: tuple[int, int]) -> str:
    return f"timestamp {timestamp} ms is not within {allowed[0]} and {allowed[1]}"


# -- storing the records in another codec


def _recompressed(
    payload: memoryview, header: BatchHeader, rules: ValidationRules, newest: int, *, log_append_time: bool
) -> Steps[ValidatedBatch]:
    """Return the batch in the topic's codec; the bytes of its expanded records do not change."""
    codec, level = rules.stored_compression, rules.compression_level
    assert codec is not None
    if codec is Compression.NONE or len(payload) <= SMALL_BYTES:
        compressed = compress_view(codec, payload, level)
    else:
        # A copy where these are bytes of the request, as in `_opened_in_thread`.
        data = bytes(payload) if header.compression is Compression.NONE else payload
        compressed = yield from in_thread(lambda: compress_view(codec, data, level))
    size_bytes = BATCH_OVERHEAD + len(compressed)
    if size_bytes > rules.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"batch of {size_bytes} bytes when it is stored as {codec.name.lower()}, "
            f"max.message.bytes is {rules.max_message_bytes}",
        )
    rebuilt = bytearray(BATCH_OVERHEAD)
    rebuilt += compressed
    attributes = codec | header.attributes & ATTRIBUTE_TRANSACTIONAL
    if log_append_time:
        attributes |= ATTRIBUTE_LOG_APPEND_TIME
    header = header._replace(
        batch_length=len(rebuilt) - LOG_OVERHEAD, attributes=attributes, max_timestamp=newest
    )
    write_header(rebuilt, 0, header)
    return ValidatedBatch(rebuilt, read_header(rebuilt))
