"""The checks of a leader before it appends a produced batch.

The header and the checksum are always checked. Records are parsed, within a bound, only if the header is not
sufficient: in a compacted topic (null keys), with a limit on the age of timestamps, and to change the
compression. This is done in steps (`tidelog.storage.log.record_validation`), as it may take half a second.
Otherwise the records are not read, and the header's largest timestamp is trusted.

| finding | error |
|---|---|
| no batch, several, magic 0 or 1, contradicting counts, control batch, no sequence | INVALID_RECORD |
| null key in a compacted topic, records that cannot be parsed | INVALID_RECORD |
| records that must be read and are more than `storage.log.record_bounds` allows | INVALID_RECORD |
| unknown magic, impossible length, checksum | CORRUPT_MESSAGE |
| batch > max.message.bytes | MESSAGE_TOO_LARGE |
| batch > segment.bytes | RECORD_LIST_TOO_LARGE |
| timestamp outside of before.max.ms / after.max.ms, log append time set by a client | INVALID_TIMESTAMP |

The error names the rejected records (KIP-467).
Source: ProduceRequest, UnifiedLog.analyzeAndValidateRecords and LogValidator of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Final

from tidelog.protocol.batch import (
    ATTRIBUTE_COMPRESSION_MASK,
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_LOG_APPEND_TIME,
    BATCH_OVERHEAD,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    crc_is_valid,
    read_header,
)
from tidelog.protocol.compression import Compression
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.record import RECORD_BYTES_MIN
from tidelog.protocol.steps import Steps
from tidelog.storage.append_origin import AppendOrigin
from tidelog.storage.log.record_validation import timestamp_error, with_create_time, with_log_append_time
from tidelog.storage.log.validation_rules import ValidatedBatch, ValidationRules

_MAGIC_AT: Final = 16
_HEADER_BYTES_IN_LENGTH: Final = BATCH_OVERHEAD - LOG_OVERHEAD
_HIGHEST_COMPRESSION: Final = int(max(Compression))
# How many bytes a byte can expand to, by codec: a batch that is not expanded must not claim more offsets.
# Deflate: 258 bytes in 2 bits. Snappy: 64 in 3 bytes. LZ4: 255 in one. Zstandard: 128 KiB in a block of 4.
_EXPANSION_MAX: Final = (1, 1032, 22, 255, 32768)


# The look-up of a member in its enum takes 70 ns, which matters if it is done for every batch.
_CLIENT: Final = AppendOrigin.CLIENT


def read_single_batch(records: bytearray | memoryview) -> BatchHeader:
    """Return the header of the one complete batch in `records`.

    Incomplete bytes after it are tolerated, as in Kafka; the caller removes them.
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
                ErrorCode.INVALID_RECORD, f"the batch has {size_bytes} bytes, but only {available} were sent"
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
            ErrorCode.INVALID_RECORD, "more than one batch per partition; a produce request must have one"
        )


def validation(
    records: bytearray | memoryview,
    header: BatchHeader,
    rules: ValidationRules,
    origin: AppendOrigin,
    now_ms: int,
) -> Steps[ValidatedBatch] | None:
    """Check one complete batch; return None if its header is sufficient and it is stored unchanged.

    Otherwise the returned steps check the records, and return the batch to store. If the topic's timestamps
    are the broker's time, they are set in place. `records` must not change before the last step.
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
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"checksum {crc:#010x} of the batch is wrong")
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
        return with_log_append_time(records, header, rules, now_ms, must_recompress)
    if newest > now_ms + rules.timestamp_after_max_ms:
        raise timestamp_error(records, header, rules, now_ms)
    # A coordinator has encoded the records itself, with keys and the current time.
    must_read = from_client and rules.looks_at_records
    if must_recompress or must_read or attributes & ATTRIBUTE_LOG_APPEND_TIME:
        return with_create_time(records, header, rules, now_ms, must_recompress)
    return None


def _check_client_header(header: BatchHeader) -> None:
    """Raise KafkaError INVALID_RECORD for an invalid header; many well compressed records are valid."""
    count = header.record_count
    if count <= 0 or header.last_offset_delta + 1 != count:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"record count {count} contradicts the last offset delta {header.last_offset_delta}",
        )
    payload_bytes = header.batch_length - _HEADER_BYTES_IN_LENGTH
    expansion_max = _EXPANSION_MAX[header.attributes & ATTRIBUTE_COMPRESSION_MASK]
    if count * RECORD_BYTES_MIN > payload_bytes * expansion_max:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{count} records do not fit in {payload_bytes} bytes")
    if header.attributes & ATTRIBUTE_CONTROL:
        raise KafkaError(ErrorCode.INVALID_RECORD, "clients may not write control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"sequence {header.base_sequence} in a batch of producer {header.producer_id}",
        )
