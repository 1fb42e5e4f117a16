from __future__ import annotations

from tidelog.base.private_memory import private_mapping


def test_a_mapping_is_zeroed_and_lives_as_long_as_its_last_view() -> None:
    view = memoryview(private_mapping(10_000))
    assert bytes(view) == bytes(10_000)
    view[9_999] = 7
    assert bytes(view[9_998:]) == b"\0\x07"
