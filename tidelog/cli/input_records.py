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
        self._records = 0

    def feed(self, data: bytes) -> list[InputRecord]:
        """The records that are complete with `data`; ValueError when one is too long."""
        self._refuse_long_rest()
        pieces = (self._rest + data).split(self._delimiter)
        self._rest = pieces.pop()
        if not pieces:
            self._refuse_long_rest()
        self._records += len(pieces)
        return [self._record(piece) for piece in pieces]

    def finish(self) -> list[InputRecord]:
        """The last record, if the input did not end with a delimiter; ValueError when it is too long."""
        self._refuse_long_rest()
        rest, self._rest = self._rest, b""
        return [self._record(rest)] if rest else []

    def _refuse_long_rest(self) -> None:
        if len(self._rest) > self._record_bytes_max:
            raise ValueError(
                f"record {self._records + 1}: no delimiter {self._delimiter!r} within"
                f" {self._record_bytes_max} bytes of input (max.request.size)"
            )

    def _record(self, piece: bytes) -> InputRecord:
        key, value = self._fixed_key, piece
        if self._key_separator is not None:
            before, separator, after = piece.partition(self._key_separator)
            if separator:
                key, value = before, after
        if self._null_empty:
            return InputRecord(key or None, value or None)
        return InputRecord(key, value)
