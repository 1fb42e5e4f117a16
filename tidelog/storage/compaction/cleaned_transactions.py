"""The transactions in the compacted range of a log, and what may be removed of them.

Records of aborted transactions are removed at once. A marker is kept until compaction finds no records of its
transaction and its delete horizon has passed. Then its entry in the transaction index is dropped, too.

Source: CleanedTransactionMetadata of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidelog.protocol.batch import BatchHeader
from tidelog.protocol.ids import ProducerId
from tidelog.protocol.transaction_marker import EndTransactionMarker
from tidelog.storage.segment.txn_index import AbortedTransaction


class _OngoingAborted:
    __slots__ = ("transaction", "was_seen")

    def __init__(self, transaction: AbortedTransaction) -> None:
        self.transaction = transaction
        self.was_seen = False


class CleanedTransactions:
    """Tracks transactions while the batches of a range are read in order; `aborted` overlap the range.

    Bounds: the aborted transactions of the transaction indexes, and one entry for each producer.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._waiting = sorted(aborted, key=lambda one: one.first_offset, reverse=True)
        self._aborted: dict[ProducerId, _OngoingAborted] = {}
        self._committed: set[ProducerId] = set()

    def saw_data(self, header: BatchHeader) -> bool:
        """Record a batch that is not a control batch; return whether its transaction was aborted."""
        if not header.is_transactional:
            return False
        ongoing = self._aborted_of(header)
        if ongoing is None:
            self._committed.add(header.producer_id)
            return False
        ongoing.was_seen = True
        return True

    def saw_marker(
        self,
        header: BatchHeader,
        marker: EndTransactionMarker | None,
        keep: Callable[[AbortedTransaction], None] | None = None,
    ) -> bool:
        """Record a marker, None in an emptied batch; return whether no batch of its transaction was seen.

        `keep` is called with an aborted transaction of which a batch was seen: readers need its index entry.
        """
        ongoing = self._aborted_of(header)
        if marker is None:
            return True
        if not marker.is_abort:
            was_seen = header.producer_id in self._committed
            self._committed.discard(header.producer_id)
            return not was_seen
        self._aborted.pop(header.producer_id, None)
        if ongoing is None or not ongoing.was_seen:
            return True
        if keep is not None:
            keep(ongoing.transaction)
        return False

    def _aborted_of(self, header: BatchHeader) -> _OngoingAborted | None:
        """Return the aborted transaction that contains the batch; None if there is none."""
        waiting, last_offset = self._waiting, header.last_offset
        while waiting and waiting[-1].first_offset <= last_offset:
            transaction = waiting.pop()
            self._aborted[transaction.producer_id] = _OngoingAborted(transaction)
        ongoing = self._aborted.get(header.producer_id)
        if ongoing is not None and ongoing.transaction.last_offset < header.base_offset:
            # Its marker was removed, so nothing has ended it here.
            del self._aborted[header.producer_id]
            return None
        return ongoing
