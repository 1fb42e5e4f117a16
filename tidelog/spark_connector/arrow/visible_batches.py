"""Decides which batches of a fetched range are visible to the application.

Control batches are never visible. With isolation level read_committed, records of aborted transactions are
not visible: the broker lists the aborted transactions of the range, and the transactional batches of a
listed producer are skipped from the first offset of its transaction to its abort marker.

Source: KIP-98; FetchResponse.json (aborted transactions).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from tidelog.protocol.batch import BatchHeader
from tidelog.protocol.compression import BytesLike
from tidelog.protocol.control_batch import ControlRecordType, control_type
from tidelog.protocol.ids import Offset, ProducerId
from tidelog.protocol.record import read_records

Aborted: TypeAlias = Iterable[tuple[ProducerId, Offset]]


class VisibleBatches:
    """Decides for each batch of one range, in the order of the log, whether it is visible.

    `aborted` has the producer and first offset of each aborted transaction. With None, their records are
    visible too.
    """

    def __init__(self, aborted: Aborted | None) -> None:
        self._all_are_visible = aborted is None
        self._pending = sorted(aborted or (), key=lambda entry: entry[1], reverse=True)
        self._aborted_producers: set[ProducerId] = set()

    def is_visible(self, buffer: BytesLike, position: int, header: BatchHeader) -> bool:
        """Return whether the records of the batch at `position` are visible.

        Errors: DecodeError for an invalid control batch.
        """
        if self._all_are_visible or not header.has_producer_id:
            return not header.is_control
        while self._pending and self._pending[-1][1] <= header.last_offset:
            self._aborted_producers.add(self._pending.pop()[0])
        if header.is_control:
            if any(
                control_type(record.key) == ControlRecordType.ABORT
                for record in read_records(buffer, position, header)
            ):
                self._aborted_producers.discard(header.producer_id)
            return False
        return not (header.is_transactional and header.producer_id in self._aborted_producers)
