"""Replays batches of metadata records and publishes images; transactions take effect atomically.

Records between a BeginTransaction and its EndTransaction record take effect together; an AbortTransaction
record discards them. No image is published while a transaction is open, so that no reader sees a part of one.

Source: KIP-868; org.apache.kafka.image.loader.MetadataBatchLoader of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from tidelog.cluster.delta import InconsistentMetadata, MetadataDelta
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.ids import LeaderEpoch, Offset
from tidelog.protocol.metadata_records.abort_transaction_record import AbortTransactionRecord
from tidelog.protocol.metadata_records.begin_transaction_record import BeginTransactionRecord
from tidelog.protocol.metadata_records.end_transaction_record import EndTransactionRecord
from tidelog.protocol.schema import MetadataRecord
from tidelog.protocol.steps import Steps


class PublishedChange(NamedTuple):
    """One change of the metadata: its delta, and the resulting image."""

    delta: MetadataDelta
    image: MetadataImage


class MetadataLoader:
    """Replays the metadata log; `image` includes all published changes."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self._delta = MetadataDelta(image)
        self._has_changes = False
        self._is_transaction_open = False

    def load(
        self, records: Iterable[MetadataRecord], base_offset: Offset, epoch: LeaderEpoch
    ) -> Steps[list[PublishedChange]]:
        """Replay one batch; return the changes to publish, none while a transaction remains open.

        The loader must not be used before the last step.
        """
        changes: list[PublishedChange] = []
        offset = base_offset - 1
        for offset, record in enumerate(records, base_offset):
            if isinstance(record, BeginTransactionRecord):
                self._begin(record)
                if self._has_changes:
                    changes.append(self._publish(offset - 1, epoch))
                self._is_transaction_open = True
            elif isinstance(record, EndTransactionRecord | AbortTransactionRecord):
                self._finish(record)
            else:
                self._delta.replay(record)
            self._has_changes = True
            yield None
        if not self._is_transaction_open and self._has_changes:
            changes.append(self._publish(offset, epoch))
        return changes

    @property
    def is_transaction_open(self) -> bool:
        """Whether a transaction is open; a new leader must abort it."""
        return self._is_transaction_open

    def fork(self) -> MetadataLoader:
        """Return another loader at the same position, for records that may never be committed.

        It does not contain the records of an open transaction, which has to be aborted.
        """
        other = MetadataLoader(self.image)
        other._is_transaction_open = self._is_transaction_open
        other._has_changes = self._has_changes
        return other

    def skip_control_records(self, last_offset: Offset, epoch: LeaderEpoch) -> None:
        """Skip a batch of the quorum's control records, which contain no metadata."""
        self.image = replace(self.image, offset=last_offset, epoch=epoch)
        if not self._has_changes:
            self._delta = MetadataDelta(self.image)

    def _publish(self, offset: Offset, epoch: LeaderEpoch) -> PublishedChange:
        change = PublishedChange(self._delta, self._delta.image(offset, epoch))
        self.image = change.image
        self._delta = MetadataDelta(change.image)
        self._has_changes = False
        return change

    def _begin(self, record: BeginTransactionRecord) -> None:
        if self._is_transaction_open:
            raise InconsistentMetadata(f"a transaction is already open: {record}")

    def _finish(self, record: EndTransactionRecord | AbortTransactionRecord) -> None:
        if not self._is_transaction_open:
            raise InconsistentMetadata(f"no transaction is open: {record}")
        self._is_transaction_open = False
        if isinstance(record, AbortTransactionRecord):
            self._delta = MetadataDelta(self.image)
