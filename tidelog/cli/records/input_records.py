"""Splits the input of `produce` into records at delimiters, and records into key and value.

Bounds: a record has at most `record_bytes_max` bytes; a longer one is an error.
"""

from __future__ import annotations

from typing import Final, NamedTuple

DEFAULT_DELIMITER: Final = b"\n"


class InputRecord(NamedTuple):
    """The key and value of one record in the input."""

    key: bytes | None
    value: bytes | None


class RecordSplitter:
    """Splits a stream of bytes into records, without I/O.

    `key_separator`: the bytes between key and value; a record without it has `fixed_key`.
    `null_empty`: empty keys and values are null, so that a line may be a tombstone.
    """

    def __init__(
        self,
        *,
        delimiter: bytes = DEFAULT_DELIMITER,
        key_separator: bytes | None = None,
        fixed_key: bytes | None = None,
        null_empty: bool = False,
        record_bytes_max: int,
    ) -> None:
        assert delimiter, "an empty delimiter would never end a record"
        self._delimiter = delimiter
        self._key_separator = key_separator
        self._fixed_key = fixed_key
        self._null_empty = null_empty
        self._record_bytes_max = record_bytes_max
        self._rest = b""
        self._records = 0

    def feed(self, data: bytes) -> list[InputRecord]:
        """Return the records that are complete with `data`; raise ValueError if one is too long."""
        self._check_rest()
        parts = (self._rest + data).split(self._delimiter)
        self._rest = parts.pop()
        if not parts:
            self._check_rest()
        self._records += len(parts)
        return [self._record(part) for part in parts]

    def finish(self) -> list[InputRecord]:
        """Return the last record if the input has no final delimiter; raise ValueError if it is too long."""
        self._check_rest()
        rest, self._rest = self._rest, b""
        return [self._record(rest)] if rest else []

    def _check_rest(self) -> None:
        if len(self._rest) > self._record_bytes_max:
            raise ValueError(
                f"record {self._records + 1}: no delimiter {self._delimiter!r} within"
                f" {self._record_bytes_max} bytes of input (max.request.size)"
            )

    def _record(self, part: bytes) -> InputRecord:
        key, value = self._fixed_key, part
        if self._key_separator is not None:
            before, separator, after = part.partition(self._key_separator)
            if separator:
                key, value = before, after
        if self._null_empty:
            return InputRecord(key or None, value or None)
        return InputRecord(key, value)
