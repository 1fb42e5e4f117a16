from __future__ import annotations

from tidelog.base.counted import counted


def test_a_noun_has_its_plural_unless_the_count_is_one() -> None:
    assert [counted(count, "record") for count in (0, 1, 2)] == ["0 records", "1 record", "2 records"]
    assert counted(3, "batch", "batches") == "3 batches"
