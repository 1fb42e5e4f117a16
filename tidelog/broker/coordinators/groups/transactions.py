"""What transactions write into `__consumer_offsets`: offsets of producers, and the markers that decide them.

A marker is appended and replayed in one step, and the replay is that of loading. So memory and log never
tell different stories (KAFKA-15784): what is pending becomes visible, or vanishes, where the marker stands.

I/O: the TransactionalLog. Source: GroupCoordinatorService of Apache Kafka 4.3; KIP-447, KIP-890.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from tidelog.broker.coordinators.groups.coordinator import GroupCoordinator
from tidelog.broker.coordinators.groups.records import encode_record
from tidelog.broker.coordinators.shared.outcome import error_of_append
from tidelog.broker.coordinators.shared.shard import Shard, ShardState
from tidelog.broker.coordinators.shared.shards import Shards, write_and_wait
from tidelog.broker.coordinators.shared.state_log import AppendedRecords
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset, ProducerEpoch, ProducerId
from tidelog.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from tidelog.storage.producers.verification import Verification

_ONE_MARKER: Final = 1


class TransactionalProducer(NamedTuple):
    """In whose transaction records are written; `verification` as in `append_as_leader`."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    verification: Verification | None


class EndOfTransaction(NamedTuple):
    """How a producer's transaction ended, as its coordinator says (KIP-98)."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    is_commit: bool
    coordinator_epoch: int
    transaction_version: int


class TransactionalLog(Protocol):
    """`__consumer_offsets` as far as this node leads it, for what is part of transactions."""

    async def verified_producer(
        self, partition: int, request: TxnOffsetCommitRequest, version: int
    ) -> TransactionalProducer:
        """Return when `partition` is part of the transaction, as far as its coordinator must be asked.

        Errors: KafkaError, the coordinator's or why it could not be asked.
        """
        ...

    def append_in_transaction(
        self, partition: int, records: Sequence[tuple[bytes, bytes | None]], producer: TransactionalProducer
    ) -> AppendedRecords:
        """Append all records, key and value, as one batch of the producer's transaction, at once.

        Errors: those of `StateLog.append`, INVALID_TXN_STATE, INVALID_PRODUCER_EPOCH.
        """
        ...

    def append_marker(self, partition: int, end: EndOfTransaction) -> AppendedRecords:
        """Append the marker that ends a transaction, at once.

        Errors: those of `StateLog.append`, INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
        """
        ...


class GroupTransactions:
    """Writes for producers and for the coordinators of their transactions."""

    def __init__(self, shards: Shards[GroupCoordinator], log: TransactionalLog) -> None:
        self._shards = shards
        self._log = log

    async def commit_offsets(
        self, request: TxnOffsetCommitRequest, topic_ids: Mapping[str, UUID], version: int
    ) -> TxnOffsetCommitResponse:
        """Commit offsets that are seen when the transaction has ended.

        Errors of single partitions are in the reply, others raise KafkaError.
        """
        partition = self._serving(request.group_id).partition
        try:
            producer = await self._log.verified_producer(partition, request, version)
        except KafkaError as error:
            raise KafkaError(error_of_append(error.code), str(error)) from error
        # It may be another's by now, or be loaded anew.
        shard = self._serving(request.group_id)
        outcome = shard.coordinator.commit_transactional_offsets(request, topic_ids, shard.now())
        records = outcome.writes.records

        def append() -> AppendedRecords:
            return self._log.append_in_transaction(partition, [encode_record(r) for r in records], producer)

        def replay(base_offset: Offset) -> None:
            for offset, record in enumerate(records, base_offset):
                shard.coordinator.replay(record, offset, producer.producer_id)

        if records:
            await self._shards.append_and_replay(shard, append, replay, len(records))
        return outcome.reply

    async def end(self, partition: int, end: EndOfTransaction, timeout_ms: int) -> None:
        """Return when the marker is committed in `partition` and what it decides is seen.

        Errors: KafkaError as of the log; NOT_LEADER_OR_FOLLOWER while the partition is not served here.
        """
        shard = self._shards.get(partition)
        if shard is None or shard.state is not ShardState.ACTIVE:
            # What transaction coordinators know, who then look for the leader and come again.
            text = f"the groups of partition {partition} are not served here, or not yet"
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

    def _serving(self, group_id: str) -> Shard[GroupCoordinator]:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        return self._shards.active_shard(group_id)
