"""The transaction index compared with a plain list and Kafka's own file, and corrupt files."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.paths import GOLDEN_FILES
from tidelog.storage.disk.errors import CorruptIndex
from tidelog.storage.disk.on_demand_file import OnDemandFile
from tidelog.storage.segment.txn_index import ENTRY_SIZE, AbortedTransaction, TransactionIndex
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

GOLDEN = GOLDEN_FILES / "storage" / "00000000000000001000.txnindex"
BASE = 1000
KAFKAS_ENTRIES = [
    AbortedTransaction(5, 1000, 1010, 1004),
    AbortedTransaction(6, 1004, 1020, 1021),
    AbortedTransaction(1 << 40, 1030, 1 << 50, (1 << 50) + 1),
]


def index_on(disk: CrashFileSystem) -> TransactionIndex:
    return TransactionIndex(OnDemandFile(disk, "/i.txnindex"), BASE)


def index_with(data: bytes) -> TransactionIndex:
    disk = CrashFileSystem()
    disk.open("/i.txnindex", create=True).append(data)
    return index_on(disk)


def test_entries_equal_kafkas_bytes() -> None:
    disk = CrashFileSystem()
    index = index_on(disk)
    for transaction in KAFKAS_ENTRIES:
        index.append(transaction)
    index.write()
    assert disk.read("/i.txnindex") == GOLDEN.read_bytes()


def test_kafkas_file_is_read() -> None:
    index = index_with(GOLDEN.read_bytes())
    index.sanity_check()
    assert list(index.entries()) == KAFKAS_ENTRIES
    assert (index.last_offset, index.entry_count, index.size_bytes) == (1 << 50, 3, 3 * ENTRY_SIZE)


def test_a_segment_without_aborted_transactions_has_no_file() -> None:
    disk = CrashFileSystem()
    index = index_on(disk)
    index.sanity_check()
    index.truncate_to(0)
    index.flush()
    assert index.collect(0, 1 << 60) == ([], False)
    assert index.last_offset is None
    index.close()
    assert not disk.exists("/i.txnindex")


def test_a_search_ends_at_a_last_stable_offset_beyond_the_bound() -> None:
    index = index_with(GOLDEN.read_bytes())
    assert index.collect(1000, 1004) == (KAFKAS_ENTRIES[:1], True)
    assert index.collect(1000, 1005) == (KAFKAS_ENTRIES[:2], True)
    assert index.collect(1011, 1025) == (KAFKAS_ENTRIES[1:2], True)
    assert index.collect(1011, 1 << 60) == (KAFKAS_ENTRIES[1:], False)


def test_last_offsets_must_increase() -> None:
    index = index_with(GOLDEN.read_bytes())
    with pytest.raises(AssertionError, match="not above"):
        index.append(AbortedTransaction(7, 1, 1 << 50, 1))


def test_truncation_removes_transactions_that_end_at_or_above_the_offset() -> None:
    index = index_with(GOLDEN.read_bytes())
    index.truncate_to(1020)
    assert (list(index.entries()), index.last_offset) == (KAFKAS_ENTRIES[:1], 1010)
    index.append(AbortedTransaction(9, 1011, 1012, 1013))
    index.truncate()
    assert index.last_offset is None


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (GOLDEN.read_bytes()[:-1], "its 101 bytes are not a multiple"),
        (b"\0\1" + GOLDEN.read_bytes()[2:], "version 1"),
        (bytes(ENTRY_SIZE), "ends below the base offset 1000"),
    ],
)
def test_corruption_is_reported(data: bytes, reason: str) -> None:
    with pytest.raises(CorruptIndex, match=rf"/i\.txnindex: .*{reason}"):
        index_with(data).sanity_check()


transactions = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 60), st.integers(1, 30), st.integers(0, 20)), max_size=300
)


@settings(max_examples=60, deadline=None)
@given(steps=transactions, start=st.integers(0, 4000), length=st.integers(0, 4000), in_memory=st.booleans())
def test_searches_equal_a_plain_list(
    steps: list[tuple[int, int, int, int]], start: int, length: int, in_memory: bool
) -> None:
    disk = CrashFileSystem()
    index = index_on(disk)
    model: list[AbortedTransaction] = []
    last_offset, stable = BASE, BASE
    for producer_id, reach_back, forward, stable_gain in steps:
        last_offset += forward
        stable = min(last_offset + 1, stable + stable_gain)
        model.append(AbortedTransaction(producer_id, max(0, last_offset - reach_back), last_offset, stable))
        index.append(model[-1])
    if not in_memory:
        index.unload()
    fetch_offset, upper_bound = BASE + start, BASE + start + length

    expected, complete = [], False
    for transaction in model:
        if transaction.last_offset >= fetch_offset and transaction.first_offset < upper_bound:
            expected.append(transaction)
        if transaction.last_offset >= fetch_offset and transaction.last_stable_offset >= upper_bound:
            complete = True
            break
    assert index.collect(fetch_offset, upper_bound) == (expected, complete)

    index.truncate_to(fetch_offset)
    index.write()
    assert list(index_on(disk).entries()) == [one for one in model if one.last_offset < fetch_offset]
