"""The writes of transactions to `__consumer_offsets`: offsets of producers, and the markers of transactions.

A marker is appended and replayed in one step, and the same replay is used while loading. So memory and log
always agree (KAFKA-15784): a pending offset becomes visible, or is dropped, at the offset of the marker.

I/O: the TransactionalLog. Source: GroupCoordinatorService of Apache Kafka 4.3; KIP-447, KIP-890.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from tidelog.broker.coordinators.groups.coordinator import GroupCoordinator
from tidelog.broker.coordinators.groups.transactional_offsets import PreparedTransactionalCommit
from tidelog.broker.coordinators.shared.encoded_records import EncodedRecords
from tidelog.broker.coordinators.shared.outcome import error_of_append
from tidelog.broker.coordinators.shared.shard import Shard, ShardState
from tidelog.broker.coordinators.shared.shards import Shards, write_and_wait
from tidelog.broker.coordinators.shared.state_log import AppendedRecords
from tidelog.broker.scheduling.slices import Slices
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset, ProducerEpoch, ProducerId
from tidelog.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from tidelog.storage.producers.verification import Verification

_ONE_MARKER: Final = 1


class TransactionalProducer(NamedTuple):
    """The producer of a transaction; `verification` is passed to the append."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    verification: Verification | None


class EndOfTransaction(NamedTuple):
    """The end of a producer's transaction, as its coordinator sends it (KIP-98)."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    is_commit: bool
    coordinator_epoch: int
    transaction_version: int


class TransactionalLog(Protocol):
    """The partitions of `__consumer_offsets` that this node leads, for writes of transactions."""

    async def verify_producer(
        self, partition: int, request: TxnOffsetCommitRequest, version: int
    ) -> TransactionalProducer:
        """Return the producer when `partition` is verified to be part of its transaction.

        Raise KafkaError with the coordinator's error, or if the coordinator cannot be reached.
        """
        ...

    def append_in_transaction(
        self, partition: int, encoded: EncodedRecords, producer: TransactionalProducer
    ) -> AppendedRecords:
        """Append all records as one batch of the producer's transaction.

        Errors: those of `StateLog.append`, INVALID_TXN_STATE, INVALID_PRODUCER_EPOCH.
        """
        ...

    def append_marker(self, partition: int, end: EndOfTransaction) -> AppendedRecords:
        """Append the marker that ends a transaction.

        Errors: those of `StateLog.append`, INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
        """
        ...


class GroupTransactions:
    """Writes offsets for producers, and markers for the coordinators of their transactions."""

    def __init__(self, shards: Shards[GroupCoordinator], log: TransactionalLog, slices: Slices) -> None:
        self._shards = shards
        self._log = log
        self._slices = slices

    async def commit_offsets(
        self, request: TxnOffsetCommitRequest, topic_ids: Mapping[str, UUID], version: int
    ) -> TxnOffsetCommitResponse:
        """Commit offsets that become visible when the transaction is committed.

        Errors of single partitions are in the reply; other errors raise KafkaError.
        """
        shard = self._require_shard(request.group_id)
        partition, offsets = shard.partition, shard.coordinator.transactional_offsets
        prepared = await self._slices.complete(offsets.prepare(request, topic_ids, shard.now()))
        try:
            return await self._commit(request, version, partition, prepared)
        finally:
            self._slices.release_later(*prepared.writes.arrays)

    async def _commit(
        self,
        request: TxnOffsetCommitRequest,
        version: int,
        partition: int,
        prepared: PreparedTransactionalCommit,
    ) -> TxnOffsetCommitResponse:
        """Verify the producer, and commit what has been prepared."""
        try:
            producer = await self._log.verify_producer(partition, request, version)
        except KafkaError as error:
            raise KafkaError(error_of_append(error.code), str(error)) from error
        # The partition may have another leader now, or may have been loaded again.
        shard = self._require_shard(request.group_id)
        outcome = shard.coordinator.transactional_offsets.commit(request, prepared)
        records, encoded = outcome.writes.records, outcome.writes.encoded
        assert encoded is not None, "the commit was prepared"

        def append() -> AppendedRecords:
            return self._log.append_in_transaction(partition, encoded, producer)

        def replay(base_offset: Offset) -> None:
            for offset, record in enumerate(records, base_offset):
                shard.coordinator.replay(record, offset, producer.producer_id)

        if records:
            await self._shards.append_and_replay(shard, append, replay, len(records))
        return outcome.reply

    async def end(self, partition: int, end: EndOfTransaction, timeout_ms: int) -> None:
        """Return when the marker is committed in `partition` and its effect is visible.

        Raise KafkaError as the log does, and NOT_LEADER_OR_FOLLOWER while the partition is not served.
        """
        shard = self._shards.get(partition)
        if shard is None or shard.state is not ShardState.ACTIVE:
            # Upon this error, transaction coordinators look up the leader and retry.
            text = f"this node does not serve the groups of partition {partition}"
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, text)

        def append() -> AppendedRecords:
            return self._log.append_marker(partition, end)

        def replay(offset: Offset) -> None:
            shard.coordinator.replay_transaction_end(end.producer_id, end.is_commit, offset)

        error = await write_and_wait(
            lambda on_completed: shard.append_and_replay(append, replay, _ONE_MARKER, on_completed),
            timeout_ms,
        )
        if error is ErrorCode.NOT_COORDINATOR:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if error is not ErrorCode.NONE:
            raise KafkaError(error, f"partition {partition}: {error.text}")

    def _require_shard(self, group_id: str) -> Shard[GroupCoordinator]:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        return self._shards.active_shard(group_id)
