"""The bytes before a payload that name its schema."""

from __future__ import annotations

import pytest

from tidelog.cli.console.schemas.wire_format import message_path, schema_id


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x00\x00\x00\x01\x02rest", 258),
        (b"\x00\xff\xff\xff\xff", 2**32 - 1),
        (b"\x00\x00\x00\x01", None),
        (b"", None),
        (b'{"number": 1}', None),
    ],
)
def test_a_value_has_a_schema_if_it_begins_with_the_magic_byte_and_an_id(
    data: bytes, expected: int | None
) -> None:
    assert schema_id(data) == expected


@pytest.mark.parametrize(
    ("indexes", "path", "payload_at"),
    [
        (b"\x00", (0,), 6),
        (b"\x02\x04", (2,), 7),
        (b"\x04\x02\x00", (1, 0), 8),
        (b"\x02\x80\x02", (128,), 8),
    ],
)
def test_the_path_to_a_message_is_read(indexes: bytes, path: tuple[int, ...], payload_at: int) -> None:
    assert message_path(b"\x00\x00\x00\x00\x01" + indexes + b"payload") == (path, payload_at)


@pytest.mark.parametrize("indexes", [b"", b"\x02", b"\x01\x00", b"\xff\xff\xff\xff\x0f", b"\x80" * 9])
def test_a_path_that_is_incomplete_or_too_long_is_refused(indexes: bytes) -> None:
    with pytest.raises(ValueError, match="index"):
        message_path(b"\x00\x00\x00\x00\x01" + indexes)
