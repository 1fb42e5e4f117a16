"""Which batches of a fetched range a reader of records gets to see.

Control batches are for brokers and readers alone. With isolation read_committed, records of aborted
transactions are left out: the broker lists the aborted transactions of the range; from a transaction's
first offset on, its producer's transactional batches are skipped until that producer's abort marker.

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
    """Judges the batches of one range in the order of the log.

    `aborted`: producer and first offset of each aborted transaction; None shows their records too.
    """

    def __init__(self, aborted: Aborted | None) -> None:
        self._shows_all = aborted is None
        self._to_come = sorted(aborted or (), key=lambda entry: entry[1], reverse=True)
        self._aborted_producers: set[ProducerId] = set()

    def shows(self, buffer: BytesLike, position: int, header: BatchHeader) -> bool:
        """Whether the records of the batch at `position` are handed out.

        Errors: DecodeError for a control batch that cannot be read.
        """
        if self._shows_all or not header.has_producer_id:
            return not header.is_control
        while self._to_come and self._to_come[-1][1] <= header.last_offset:
            self._aborted_producers.add(self._to_come.pop()[0])
        if header.is_control:
            if any(
                control_type(record.key) == ControlRecordType.ABORT
                for record in read_records(buffer, position, header)
            ):
                self._aborted_producers.discard(header.producer_id)
            return False
        return not (header.is_transactional and header.producer_id in self._aborted_producers)
