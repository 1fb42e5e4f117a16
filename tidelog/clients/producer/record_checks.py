"""Errors about a record that an application sends: its types, its timestamp and its size."""

from __future__ import annotations

from typing import Final

from tidelog.clients.config.client_config import ProducerConfig
from tidelog.protocol.errors import ErrorCode, KafkaError

_TIMESTAMP_MAX: Final = 2**63 - 1
_BYTES: Final = (bytes, bytearray, memoryview)


def refuse_bad_timestamp(timestamp_ms: object) -> None:
    """Raise TypeError if the timestamp is not an int, KafkaError(INVALID_TIMESTAMP) if it is out of range."""
    if not isinstance(timestamp_ms, int) or isinstance(timestamp_ms, bool):
        kind = type(timestamp_ms).__name__
        raise TypeError(f"timestamp_ms={timestamp_ms!r} is a {kind}, expected a whole number of ms")
    if not 0 <= timestamp_ms <= _TIMESTAMP_MAX:
        text = f"timestamp_ms={timestamp_ms} is not in 0..{_TIMESTAMP_MAX}"
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, text)


def refuse_bad_record(value: object, key: object, headers: object, cause: Exception) -> None:
    """Raise a TypeError that names the part of a record with a wrong type; called when encoding has failed.

    Return if all types are correct.
    """
    text = _explain(value, key, headers)
    if text is not None:
        raise TypeError(text) from cause


def too_large(size: int, config: ProducerConfig) -> KafkaError:
    """Return the error for a record of up to `size` bytes, which names the option that limits the size."""
    limit = (
        f"max_request_size={config.max_request_size}"
        if size > config.max_request_size
        else f"buffer_memory={config.buffer_memory}"
    )
    return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"record of {size} bytes is larger than {limit}")


def _explain(value: object, key: object, headers: object) -> str | None:
    for name, content in (("value", value), ("key", key)):
        if content is not None and not isinstance(content, _BYTES):
            return f"{name}={_short_text(content)} is a {type(content).__name__}, expected bytes or None"
    if not isinstance(headers, list | tuple):
        return (
            f"headers={_short_text(headers)} is a {type(headers).__name__}, expected a list of (str, bytes)"
        )
    for header in headers:
        match header:
            case (str(), content) if content is None or isinstance(content, _BYTES):
                continue
        return f"header {_short_text(header)}: expected (str, bytes or None)"
    return None


def _short_text(content: object) -> str:
    """Return the beginning of the value's representation, which may be long."""
    text = repr(content)
    return text if len(text) <= 60 else text[:57] + "..."
