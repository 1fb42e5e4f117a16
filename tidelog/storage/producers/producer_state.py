"""The producers of one partition: duplicate detection, fencing, and which offsets are stable.

The append path of a log, for each batch that has a producer id:

    duplicate = producers.check(header, first_offset, origin, marker)    # raises KafkaError; changes nothing
    ... write the batch ...
    completed = producers.update(header, first_offset, marker)
    if completed: index an aborted one with producers.transactions.last_stable_offset_after(completed),
                  then call producers.transactions.complete(completed)

Source: ProducerStateManager of Apache Kafka 4.3; KIP-98, KIP-360, KIP-890.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from tidelog.protocol.batch import ATTRIBUTE_CONTROL, BatchHeader
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset, ProducerEpoch, ProducerId, TopicPartition
from tidelog.protocol.transaction_marker import EndTransactionMarker
from tidelog.storage.append_origin import AppendOrigin
from tidelog.storage.disk.files import FileSystem
from tidelog.storage.producers.open_transactions import CompletedTransaction, OpenTransactions
from tidelog.storage.producers.producer_entry import BatchMetadata, ProducerEntry
from tidelog.storage.producers.snapshot_files import SnapshotFiles
from tidelog.storage.producers.verification import NO_VERIFICATION, Verification

# The look-up of a member in its enum takes 70 ns each time.
_CLIENT: Final = AppendOrigin.CLIENT
_REPLICATION: Final = AppendOrigin.REPLICATION


class ProducerStateManager:
    """The state of all producers that wrote to a partition, with its snapshots on disk.

    It includes all batches below `map_end_offset`, and no producer has written between there and the log end.

    Bounds: producers are removed `producer_id_expiration_ms` after their last batch or marker (Kafka's
    producer.id.expiration.ms), verifications after they began; the caller runs `remove_expired` regularly.
    """

    def __init__(
        self,
        topic_partition: TopicPartition,
        fs: FileSystem,
        directory: str,
        producer_id_expiration_ms: int,
    ) -> None:
        self.topic_partition = topic_partition
        self.producer_id_expiration_ms = producer_id_expiration_ms
        self.map_end_offset: Offset = 0
        self.snapshots = SnapshotFiles(fs, directory)
        self.transactions = OpenTransactions()
        self._producers: dict[ProducerId, ProducerEntry] = {}
        self._verifications: dict[ProducerId, Verification] = {}
        self._snapshot_offset: Offset = 0

    @property
    def producers(self) -> Mapping[ProducerId, ProducerEntry]:
        """All known producers; a view that must not be changed."""
        return MappingProxyType(self._producers)

    def has_open_transaction(self, producer_id: ProducerId, producer_epoch: ProducerEpoch) -> bool:
        """Return whether this producer, in this epoch, has begun a transaction here and not ended it."""
        entry = self._producers.get(producer_id)
        return (
            entry is not None
            and entry.transaction_first_offset is not None
            and entry.producer_epoch == producer_epoch
        )

    def has_open_transaction_since(self, before_ms: int) -> bool:
        """Return whether the producer of the oldest open transaction wrote nothing since `before_ms`."""
        producer_id = self.transactions.oldest_producer_id
        entry = None if producer_id is None else self._producers.get(producer_id)
        return entry is not None and entry.last_timestamp < before_ms

    def begin_verification(
        self,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        sequence: int,
        now_ms: int,
        *,
        supports_epoch_bump: bool,
    ) -> Verification | None:
        """Begin or continue the verification of a producer's transaction; None if the transaction is open.

        `sequence` is that of the waiting batch, -1 for a coordinator's.
        Errors: INVALID_PRODUCER_EPOCH if the log has a higher epoch; the coordinator is not needed then.
        """
        entry = self._producers.get(producer_id)
        if entry is not None and producer_epoch < entry.producer_epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"epoch {producer_epoch} of producer {producer_id} in {self.topic_partition} is below the "
                f"last seen epoch {entry.producer_epoch}",
            )
        if self.has_open_transaction(producer_id, producer_epoch):
            return None
        verification = self._verifications.get(producer_id)
        if verification is None:
            verification = Verification(producer_id, now_ms, sequence, producer_epoch, supports_epoch_bump)
            self._verifications[producer_id] = verification
        else:
            verification.add_batch(sequence, producer_epoch, supports_epoch_bump=supports_epoch_bump)
        return verification

    def forget_verifications(self) -> None:
        """End all verifications: another broker is the leader and writes the markers."""
        self._verifications.clear()

    def check_transactional(
        self,
        header: BatchHeader,
        first_offset: Offset,
        origin: AppendOrigin,
        verification: Verification | None,
    ) -> BatchMetadata | None:
        """Check a batch of a transaction like `check`; a transaction that is not open must be verified.

        `verification` is the one that began for the batch, NO_VERIFICATION if the transaction was open
        then, None if transactions are not verified.
        Errors: those of `check`. NOT_ENOUGH_REPLICAS, which clients retry, if the verification has ended:
        the next attempt is verified again. INVALID_TXN_STATE if an open transaction has ended.
        """
        producer_id = header.producer_id
        entry = self._producers.get(producer_id)
        is_open = self.has_open_transaction(producer_id, header.producer_epoch)
        if is_open or verification is None:
            return self.check(header, first_offset, origin)
        if entry is not None:
            duplicate = entry.find_duplicate(header) if origin is _CLIENT else None
            if duplicate is not None:
                return duplicate
            entry.check_epoch(header, first_offset)
        if verification is NO_VERIFICATION:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"the transaction of producer {producer_id} in {self.topic_partition} has ended before the "
                f"batch at offset {first_offset}",
            )
        if self._verifications.get(producer_id) is not verification:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"a marker has ended the verification of producer {producer_id} in {self.topic_partition}; "
                f"send the batch at offset {first_offset} again",
            )
        if origin is _CLIENT:
            verification.check_sequence(header, first_offset, entry)
        return self.check(header, first_offset, origin)

    def check(
        self,
        header: BatchHeader,
        first_offset: Offset,
        origin: AppendOrigin,
        marker: EndTransactionMarker | None = None,
        *,
        transaction_version: int = 0,
    ) -> BatchMetadata | None:
        """Check a batch before it is appended; return the earlier batch if a client sends it again.

        `first_offset` is the offset that the batch would get, `marker` the record of a control batch,
        `transaction_version` the transaction.version feature of the coordinator.
        Several batches of one producer must be checked and updated one after the other.
        Errors: KafkaError with the codes in `tidelog.storage.producers.producer_entry`; nothing has changed
        then.
        """
        if origin is _REPLICATION:
            return None
        entry = self._producers.get(header.producer_id)
        if entry is None:
            return None
        if header.attributes & ATTRIBUTE_CONTROL:
            if marker is not None:
                entry.check_marker(header, first_offset, marker, transaction_version)
            return None
        if origin is not _CLIENT:
            entry.check_epoch(header, first_offset)
        elif not entry.continues_with(header):
            duplicate = entry.find_duplicate(header)
            if duplicate is not None:
                return duplicate
            entry.check_epoch(header, first_offset)
            entry.check_sequence(header, first_offset)
        if entry.transaction_first_offset is not None:
            entry.check_transaction(header, first_offset)
        return None

    def update(
        self,
        header: BatchHeader,
        first_offset: Offset,
        marker: EndTransactionMarker | None = None,
        *,
        transaction_version: int = 0,
    ) -> CompletedTransaction | None:
        """Apply a batch that is in the log now; return the transaction that it ended, if it is a marker.

        `transaction_version` is that of a coordinator's marker, 0 if it is unknown.
        It never raises: the contents of the log are not questioned, also if a leader sent them.
        """
        producer_id = header.producer_id
        assert producer_id >= 0, f"batch at offset {first_offset} has no producer id"
        self.map_end_offset = first_offset + header.last_offset_delta + 1
        if marker is None and header.attributes & ATTRIBUTE_CONTROL:
            return None  # compaction has removed the whole transaction
        entry = self._producers.get(producer_id)
        if entry is None:
            entry = self._producers[producer_id] = ProducerEntry(producer_id)
        if marker is None:
            if entry.add_batch(header, first_offset):
                self.transactions.begin(producer_id, first_offset)
                self._verifications.pop(producer_id, None)
            return None
        verification = self._verifications.get(producer_id)
        if verification is not None and verification.is_ended_by_marker(
            header.producer_epoch, transaction_version
        ):
            del self._verifications[producer_id]
        started = entry.end_transaction(header.producer_epoch, marker)
        if started is None:
            return None
        return CompletedTransaction(producer_id, started, first_offset, marker.is_abort)

    def remove_expired(self, now_ms: int) -> None:
        """Remove producers that have written nothing for too long and have no open transaction."""
        expired = [entry.producer_id for entry in self._producers.values() if self._is_expired(entry, now_ms)]
        for producer_id in expired:
            del self._producers[producer_id]
        self._verifications = {
            producer_id: verification
            for producer_id, verification in self._verifications.items()
            if now_ms - verification.begun_ms < self.producer_id_expiration_ms
        }

    def load_entries(self, entries: Iterable[ProducerEntry]) -> None:
        """Add producers from a snapshot of this log or of remote storage."""
        self._producers.update((entry.producer_id, entry) for entry in entries)
        self.transactions.load(self._producers.values())

    def truncate_and_reload(self, log_start_offset: Offset, log_end_offset: Offset, now_ms: int) -> None:
        """Restore the newest snapshot within the log; the caller replays from `map_end_offset` on.

        Snapshots outside of the log are deleted. A state that is already that of `log_end_offset` is kept:
        a new log start does not remove producers that are only in memory.
        """
        for offset in list(self.snapshots.offsets):
            if offset > log_end_offset or offset <= log_start_offset:
                self.snapshots.delete(offset)
        if log_end_offset == self.map_end_offset:
            self.on_log_start_offset_incremented(log_start_offset)
            return
        self._forget_all()
        self._load_newest_snapshot(log_start_offset, now_ms)

    def on_log_start_offset_incremented(self, log_start_offset: Offset) -> None:
        """Drop transactions that end below the new log start; the state includes everything below it."""
        self.transactions.drop_ended_below(log_start_offset)
        self.map_end_offset = max(self.map_end_offset, log_start_offset)
        self._snapshot_offset = self.snapshots.offsets[-1] if self.snapshots.offsets else log_start_offset

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Remove all producers and snapshots; the log is empty and starts at `offset`."""
        self._forget_all()
        for snapshot in list(self.snapshots.offsets):
            self.snapshots.delete(snapshot)
        self._snapshot_offset = 0
        self.map_end_offset = offset

    def update_map_end_offset(self, offset: Offset) -> None:
        """Record that the state includes all batches below `offset`."""
        self.map_end_offset = offset

    def set_expiration(self, producer_id_expiration_ms: int) -> None:
        """Change the time after which idle producers are removed."""
        self.producer_id_expiration_ms = producer_id_expiration_ms

    def take_snapshot(self, *, sync: bool = True) -> str | None:
        """Write a snapshot at `map_end_offset` and return its path; None if there is one already.

        Without `sync` this does not wait for the disk: the caller passes the path to `flush_snapshot` in
        another thread.
        """
        if self.map_end_offset <= self._snapshot_offset:
            return None
        path = self.snapshots.write(self.map_end_offset, list(self._producers.values()), sync=sync)
        self._snapshot_offset = self.map_end_offset
        return path

    def _load_newest_snapshot(self, log_start_offset: Offset, now_ms: int) -> None:
        newest = self.snapshots.read_newest()
        self.map_end_offset = self._snapshot_offset = log_start_offset if newest is None else newest[0]
        if newest is None:
            return
        self.load_entries(entry for entry in newest[1] if not self._is_expired(entry, now_ms))

    def _is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        return (
            entry.transaction_first_offset is None
            and now_ms - entry.last_timestamp >= self.producer_id_expiration_ms
        )

    def _forget_all(self) -> None:
        self._producers.clear()
        self._verifications.clear()
        self.transactions.clear()
