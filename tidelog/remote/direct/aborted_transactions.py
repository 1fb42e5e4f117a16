"""Aborted transactions of records that are read from remote storage without a broker.

I/O: blocks; the indexes of several segments are fetched at a time. Errors: RemoteStorageError;
RemoteResourceNotFound if a required segment was deleted.
"""

from __future__ import annotations

from itertools import islice

from tidelog.protocol.ids import ENDLESS, Offset
from tidelog.remote.direct.fetched_indexes import FetchedIndexes
from tidelog.remote.direct.partition_tier import PartitionTier
from tidelog.remote.inspection.bucket import THREADS, in_threads
from tidelog.remote.ports.storage_manager import RemoteStorageManager
from tidelog.remote.reading import aborted
from tidelog.remote.reading.lineage import SegmentPart, parts_with_aborted_transactions
from tidelog.storage.segment.txn_index import AbortedTransaction, AbortedTransactions


def aborted_transactions(
    storage: RemoteStorageManager, tier: PartitionTier, start_offset: Offset, end_offset: Offset
) -> AbortedTransactions:
    """Return the aborted transactions that overlap [`start_offset`, `end_offset`), in order.

    Their markers are in remote storage. `complete` is False if the markers of others may be after all records
    in remote storage.
    """
    indexes = FetchedIndexes(storage)

    def read_index(part: SegmentPart) -> AbortedTransactions:
        return aborted.collect(indexes, [part], start_offset, end_offset)

    collected: dict[AbortedTransaction, None] = {}
    candidates = parts_with_aborted_transactions(
        tier.metadata, tier.partition, tier.epochs, start_offset, ENDLESS
    )
    while parts := list(islice(candidates, THREADS)):
        for transactions, complete in in_threads(read_index, parts):
            collected.update(dict.fromkeys(transactions))
            if complete:
                return AbortedTransactions(list(collected), True)
    return AbortedTransactions(list(collected), False)
