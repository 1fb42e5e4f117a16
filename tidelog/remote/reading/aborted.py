"""Collection of aborted transactions from the transaction indexes of remote segments.

I/O: blocks; called from reader threads. Errors: RemoteStorageError.
Source: RemoteLogManager.collectAbortedTransactions of Apache Kafka 4.3; KAFKA-16780, KAFKA-17801.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.protocol.ids import Offset
from tidelog.remote.index_cache.segment_indexes import SegmentIndexes
from tidelog.remote.ports.storage_manager import DamagedSegment
from tidelog.remote.reading.lineage import SegmentPart
from tidelog.storage.disk.errors import CorruptIndex
from tidelog.storage.segment.txn_index import AbortedTransaction, AbortedTransactions, TransactionIndex


def collect(
    index_cache: SegmentIndexes, parts: Iterable[SegmentPart], start: Offset, upper_bound: Offset
) -> AbortedTransactions:
    """Return the transactions that overlap [`start`, `upper_bound`) and end in `parts`, in their order."""
    transactions_found: list[AbortedTransaction] = []
    for part in parts:
        try:
            with index_cache.transaction_index(part.metadata) as index:
                transactions, complete = _in_part(index, part, start, upper_bound)
        except CorruptIndex as damage:
            index_cache.forget(part.metadata)
            raise DamagedSegment(str(damage)) from damage
        transactions_found += transactions
        if complete:
            return AbortedTransactions(transactions_found, True)
    return AbortedTransactions(transactions_found, False)


def _in_part(
    index: TransactionIndex, part: SegmentPart, start: Offset, upper_bound: Offset
) -> AbortedTransactions:
    if part.end_offset > part.metadata.end_offset:
        return index.collect(start, upper_bound)
    # After the part, the segment is not in our log: a marker there may abort a committed transaction.
    transactions: list[AbortedTransaction] = []
    for transaction in index.entries():
        if transaction.last_offset >= part.end_offset:
            break
        if transaction.last_offset >= start and transaction.first_offset < upper_bound:
            transactions.append(transaction)
        if transaction.last_stable_offset >= upper_bound:
            return AbortedTransactions(transactions, True)
    return AbortedTransactions(transactions, False)
