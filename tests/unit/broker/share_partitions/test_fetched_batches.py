"""The batches of fetched records: offsets, aborted transactions, and the part with acquired records."""

from __future__ import annotations

import pytest

from tests.support.logs.partition_logs import append, batch, open_log
from tidelog.broker.share_partitions.acquisition import AcquiredRecords
from tidelog.broker.share_partitions.fetched_batches import FetchedBatches
from tidelog.storage.segment.file_slice import FileSlice
from tidelog.storage.segment.txn_index import AbortedTransaction
from tidelog.testing.simulation.crash_file_system import CrashFileSystem


@pytest.mark.parametrize("size", [1, 30_000])
def test_batches_are_found_in_a_file_and_in_memory(size: int) -> None:
    log = open_log(CrashFileSystem())
    for number in range(300):
        append(log, str(number), "x" * (size if number % 50 == 0 else 1))
    records = log.read(0, 1 << 30, at_least_one=True).records
    assert isinstance(records, FileSlice)
    expected = [(2 * number, 2 * number + 2, False) for number in range(300)]
    for source in (records, records.read()):
        batches = FetchedBatches(source, None)
        assert [tuple(one) for one in batches] == expected
        part = batches.part_with([AcquiredRecords(101, 102, 1), AcquiredRecords(109, 109, 1)])
        data = part.read() if isinstance(part, FileSlice) else part
        inner = FetchedBatches(data, None)
        assert [one.first_offset for one in inner] == list(range(100, 110, 2))


def test_only_the_requested_headers_are_read() -> None:
    records = b"".join(bytes(batch(["a"], base_offset=number)) for number in range(3))
    batches = FetchedBatches(records, None)
    next(iter(batches))
    part = batches.part_with([AcquiredRecords(0, 0, 1)])
    assert not isinstance(part, FileSlice) and len(part) == len(batch(["a"]))


def test_batches_of_aborted_transactions_are_marked() -> None:
    def write_batch(offset: int, producer_id: int, *, is_transactional: bool = True) -> bytes:
        data = batch(
            ["a"],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=is_transactional,
        )
        return bytes(data)

    records = (
        write_batch(0, 5) + write_batch(1, 6) + write_batch(2, 5, is_transactional=False) + write_batch(9, 5)
    )
    aborted = [AbortedTransaction(5, 0, 8, 0)]
    assert [one.is_aborted for one in FetchedBatches(records, aborted)] == [True, False, False, False]
