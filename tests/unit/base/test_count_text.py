from __future__ import annotations

from tidelog.base.count_text import count_text


def test_a_noun_has_its_plural_unless_the_count_is_one() -> None:
    assert [count_text(count, "record") for count in (0, 1, 2)] == ["0 records", "1 record", "2 records"]
    assert count_text(3, "batch", "batches") == "3 batches"
