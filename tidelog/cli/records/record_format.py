r"""The format strings of `consume -f`, with the tokens of kcat.

| token | |
|---|---|
| %s %k | value, key |
| %S %K | their lengths in bytes, -1 for null |
| %R | length of the value as a big-endian int32, -1 for null |
| %t %p %o | topic, partition, offset |
| %T | timestamp in ms since 1970 |
| %h | headers as name=value, separated by commas |
| %% | a percent sign |

`\n`, `\t`, `\r` and `\xNN` are escapes, see `tidelog.cli.records.escapes`. A null key or value prints
nothing, or `NULL` with `--print-null`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, TypeAlias

from tidelog.cli.output import bytes_to_json, json_text
from tidelog.cli.records.escapes import read_escape
from tidelog.clients.consumer.consumer_types import ConsumerRecord

RecordFormatter: TypeAlias = Callable[[ConsumerRecord], bytes]

DEFAULT_FORMAT: Final = "%s\\n"

_LENGTH: Final = struct.Struct(">i")
_TOKENS: Final = "sSRkKtpoTh%"


def compile_format(text: str, *, null: bytes = b"") -> RecordFormatter:
    """Return a function from record to bytes; `null` is printed for null keys and values.

    A null header is always printed as NULL.

    Errors: ValueError for an unknown token, a bad escape, or a `%` at the end.
    """
    parts = _parse(text, null)
    if len(parts) == 1 and not isinstance(parts[0], bytes):
        return parts[0]

    def render(record: ConsumerRecord) -> bytes:
        return b"".join([part if isinstance(part, bytes) else part(record) for part in parts])

    return render


def json_line(record: ConsumerRecord) -> bytes:
    """Return a record as one line of JSON."""
    fields = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": record.timestamp_type,
        "key": bytes_to_json(record.key),
        "value": bytes_to_json(record.value),
        "headers": [{"key": key, "value": bytes_to_json(value)} for key, value in record.headers],
    }
    return json_text(fields).encode() + b"\n"


def _parse(text: str, null: bytes) -> list[bytes | RecordFormatter]:
    tokens = _token_functions(null)
    parts: list[bytes | RecordFormatter] = []
    literal = bytearray()
    position = 0
    while position < len(text):
        character = text[position]
        if character == "\\":
            data, position = read_escape(text, position)
            literal += data
            continue
        if character != "%":
            literal += character.encode()
            position += 1
            continue
        token = text[position + 1 : position + 2]
        if not token or token not in _TOKENS:
            raise ValueError(
                f"format {text!r}: unknown token '%{token}', expected one of %{' %'.join(_TOKENS)}"
            )
        if token == "%":
            literal += b"%"
        else:
            if literal:
                parts.append(bytes(literal))
                literal.clear()
            parts.append(tokens[token])
        position += 2
    if literal:
        parts.append(bytes(literal))
    return parts


def _token_functions(null: bytes) -> dict[str, RecordFormatter]:
    return {
        "s": lambda record: null if record.value is None else record.value,
        "S": lambda record: b"%d" % _length(record.value),
        "R": lambda record: _LENGTH.pack(_length(record.value)),
        "k": lambda record: null if record.key is None else record.key,
        "K": lambda record: b"%d" % _length(record.key),
        "t": lambda record: record.topic.encode(),
        "p": lambda record: b"%d" % record.partition,
        "o": lambda record: b"%d" % record.offset,
        "T": lambda record: b"%d" % record.timestamp,
        "h": lambda record: b",".join(
            key.encode() + b"=" + (b"NULL" if value is None else value) for key, value in record.headers
        ),
    }


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)
