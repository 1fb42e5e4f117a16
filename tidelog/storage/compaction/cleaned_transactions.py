"""Which transactions the compaction of a log comes by, and what that lets go.

Records of aborted transactions go at once. A marker stays until compaction finds nothing of its transaction
any more, and its delete horizon has passed; then the entry in the transaction index is not written anew.

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
    """Goes over the batches of a log in order; `aborted` are those that overlap what is gone over.

    Bounds: the aborted transactions of the transaction indexes, and one entry for each producer.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._waiting = sorted(aborted, key=lambda one: one.first_offset, reverse=True)
        self._aborted: dict[ProducerId, _OngoingAborted] = {}
        self._committed: set[ProducerId] = set()

    def saw_data(self, header: BatchHeader) -> bool:
        """A batch that is no control batch; whether it belongs to an aborted transaction."""
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
        """A marker, None in an emptied batch; whether nothing of its transaction was seen, so that it may go.

        `keep` gets an aborted transaction of which something was seen: readers still need to know of it.
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
        """The aborted transaction of the batch's producer that the batch is within."""
        waiting, last_offset = self._waiting, header.last_offset
        while waiting and waiting[-1].first_offset <= last_offset:
            transaction = waiting.pop()
            self._aborted[transaction.producer_id] = _OngoingAborted(transaction)
        ongoing = self._aborted.get(header.producer_id)
        if ongoing is not None and ongoing.transaction.last_offset < header.base_offset:
            # Its marker is gone, so that nothing has ended it here.
            del self._aborted[header.producer_id]
            return None
        return ongoing
