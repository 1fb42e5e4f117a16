"""Records from the text that `produce` reads: one per delimiter, with a key in front if asked for.

Bounds: a record without a delimiter grows to `record_bytes_max` at most, then reading fails.
"""

from __future__ import annotations

from typing import Final, NamedTuple

DEFAULT_DELIMITER: Final = b"\n"


class InputRecord(NamedTuple):
    """What one piece of the input says."""

    key: bytes | None
    value: bytes | None


class RecordSplitter:
    """Cuts a stream of bytes into records; no I/O.

    `key_separator`: what stands between key and value; a record without it has the fixed key.
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

    def feed(self, data: bytes) -> list[InputRecord]:
        """The records that are complete with `data`; ValueError when one is too long."""
        pieces = (self._rest + data).split(self._delimiter)
        self._rest = pieces.pop()
        if len(self._rest) > self._record_bytes_max:
            raise ValueError(
                f"no delimiter {self._delimiter!r} within {self._record_bytes_max} bytes of input"
            )
        return [self._record(piece) for piece in pieces]

    def finish(self) -> list[InputRecord]:
        """The last record, if the input did not end with a delimiter."""
        rest, self._rest = self._rest, b""
        return [self._record(rest)] if rest else []

    def _record(self, piece: bytes) -> InputRecord:
        key, value = self._fixed_key, piece
        if self._key_separator is not None:
            before, separator, after = piece.partition(self._key_separator)
            if separator:
                key, value = before, after
        if self._null_empty:
            return InputRecord(key or None, value or None)
        return InputRecord(key, value)
