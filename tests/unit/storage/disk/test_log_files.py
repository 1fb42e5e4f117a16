"""File names in a partition directory."""

from __future__ import annotations

import pytest

from tidelog.storage.disk.log_files import base_offset_of, file_name, is_index, is_segment_log


def test_a_file_name_is_the_offset_in_twenty_digits() -> None:
    assert file_name(42, ".log") == "00000000000000000042.log"
    assert file_name(2**63 - 1, ".timeindex") == "09223372036854775807.timeindex"
    assert base_offset_of(file_name(2**63 - 1, ".index")) == 2**63 - 1


@pytest.mark.parametrize(
    "name",
    [
        "42.log",
        "0000000000000000004x.log",
        "00000000000000000000-0000000000.checkpoint",
        "000000000000000000421.log",
        "leader-epoch-checkpoint",
        "",
    ],
)
def test_other_names_have_no_offset(name: str) -> None:
    assert base_offset_of(name) is None
    assert not is_segment_log(name)


def test_files_marked_deleted_are_ignored() -> None:
    name = file_name(7, "")
    assert is_segment_log(f"{name}.log")
    assert not is_segment_log(f"{name}.log.deleted")
    assert [is_index(name + kind) for kind in (".index", ".timeindex", ".txnindex")] == [True] * 3
    assert not is_index(f"{name}.index.swap")
    assert not is_index(f"{name}.snapshot")
