"""Decodes the records of Kafka's internal topics to values for JSON.

| topic | name | |
|---|---|---|
| `__consumer_offsets` | offsets | committed offsets and groups |
| `__transaction_state` | transactions | states of transactions |
| `__cluster_metadata` | metadata | KRaft metadata records |

Errors: DecodeError for other bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from tidelog.base.count_text import count_text
from tidelog.cli.output import to_json
from tidelog.protocol.codec import decode
from tidelog.protocol.coordinator_records.transaction_log import TransactionLogKey, TransactionLogValue
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.record import Record
from tidelog.protocol.schema import Message
from tidelog.storage.directories.partition_directory import parse_directory_name

Decoder: TypeAlias = Callable[[Record], dict[str, Any]]

_VERSION: Final = struct.Struct(">h")
_NAMES: Final = {
    "__consumer_offsets": "offsets",
    "__transaction_state": "transactions",
    "__cluster_metadata": "metadata",
}


def decoder_for_directory(name: str) -> Decoder | None:
    """Return the decoder for the partition directory of an internal topic; None for other topics."""
    directory = parse_directory_name(name)
    if directory is None or directory.topic_partition.topic not in _NAMES:
        return None
    return decoder_named(_NAMES[directory.topic_partition.topic])


def decoder_named(name: str) -> Decoder:
    """Return the decoder with the name offsets, transactions or metadata."""
    return {"offsets": _offsets, "transactions": _transactions, "metadata": _metadata}[name]


def _offsets(record: Record) -> dict[str, Any]:
    from tidelog.broker.coordinators.groups.records.coordinator_records import decode_messages

    messages = decode_messages(record.key, record.value)
    if messages is None:
        return {"type": "unknown", "key_type": _version(record.key or b"", "key")}
    key, value = messages
    return {
        "type": type(key).__name__.removesuffix("Key"),
        "key": to_json(key),
        "value": None if value is None else to_json(value),
    }


def _transactions(record: Record) -> dict[str, Any]:
    key = _message(TransactionLogKey, record.key or b"", "key")
    value = None if record.value is None else _message(TransactionLogValue, record.value, "value")
    return {"type": "TransactionLog", "key": to_json(key), "value": None if value is None else to_json(value)}


def _metadata(record: Record) -> dict[str, Any]:
    from tidelog.cluster.metadata_log_codec import decode_record

    decoded_record = decode_record(record.value or b"")
    return {"type": type(decoded_record).__name__, "value": to_json(decoded_record)}


def _message(cls: type[Message], data: bytes, what: str) -> Message:
    version = _version(data, what)
    if version not in cls.valid_versions:
        raise DecodeError(f"{cls.__name__} has no version {version}")
    return decode(cls, memoryview(data)[_VERSION.size :], version)


def _version(data: bytes, what: str) -> int:
    if len(data) < _VERSION.size:
        raise DecodeError(f"a record's {what} of {count_text(len(data), 'byte')} has no version")
    return int(_VERSION.unpack_from(data)[0])
