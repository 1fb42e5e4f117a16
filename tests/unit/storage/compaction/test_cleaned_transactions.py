"""Batches of aborted transactions, and markers that can be removed."""

from __future__ import annotations

from tests.support.logs.partition_logs import batch, end_marker
from tidelog.protocol.batch import BatchHeader, read_header
from tidelog.protocol.transaction_marker import EndTransactionMarker
from tidelog.storage.compaction.cleaned_transactions import CleanedTransactions
from tidelog.storage.segment.txn_index import AbortedTransaction

ABORT, COMMIT = EndTransactionMarker(True, 0, 0), EndTransactionMarker(False, 0, 0)


def data(offset: int, producer_id: int = 1, *, is_transactional: bool = True) -> BatchHeader:
    header = read_header(
        batch(["x"], producer_id=producer_id, producer_epoch=0, is_transactional=is_transactional)
    )
    return header._replace(base_offset=offset)


def marker(offset: int, producer_id: int = 1) -> BatchHeader:
    return read_header(end_marker(producer_id))._replace(base_offset=offset)


def aborted_transaction(first: int, last: int, producer_id: int = 1) -> AbortedTransaction:
    return AbortedTransaction(producer_id, first, last, last + 1)


def test_records_of_an_aborted_transaction_are_removed_and_its_marker_is_kept() -> None:
    transactions, kept = CleanedTransactions([aborted_transaction(1, 4)]), list[AbortedTransaction]()
    assert not transactions.saw_data(data(0, is_transactional=False))
    assert transactions.saw_data(data(1))
    assert not transactions.saw_data(data(2, producer_id=2))
    assert transactions.saw_data(data(3))
    assert not transactions.saw_marker(marker(4), ABORT, kept.append)
    assert kept == [aborted_transaction(1, 4)]
    assert not transactions.saw_data(data(5)), "the producer's next transaction"


def test_a_marker_without_records_is_removed() -> None:
    transactions, kept = CleanedTransactions([aborted_transaction(1, 4)]), list[AbortedTransaction]()
    assert transactions.saw_marker(marker(4), ABORT, kept.append)
    assert transactions.saw_marker(marker(6), COMMIT, kept.append)
    assert transactions.saw_marker(marker(7), None, kept.append)
    assert not kept
    assert not transactions.saw_data(data(8))
    assert not transactions.saw_marker(marker(9), COMMIT)
    assert transactions.saw_marker(marker(10), COMMIT)


def test_each_aborted_transaction_of_a_producer_is_separate() -> None:
    transactions, kept = (
        CleanedTransactions([aborted_transaction(10, 12), aborted_transaction(1, 4)]),
        list[AbortedTransaction](),
    )
    assert transactions.saw_data(data(2))
    assert not transactions.saw_marker(marker(4), ABORT, kept.append)
    assert not transactions.saw_data(data(6))
    assert not transactions.saw_marker(marker(7), COMMIT, kept.append)
    assert transactions.saw_data(data(11))
    assert not transactions.saw_marker(marker(12), ABORT, kept.append)
    assert kept == [aborted_transaction(1, 4), aborted_transaction(10, 12)]


def test_an_aborted_transaction_without_marker_ends_at_its_last_offset() -> None:
    transactions = CleanedTransactions([aborted_transaction(1, 4)])
    assert not transactions.saw_data(data(5))
