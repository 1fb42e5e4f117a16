"""A minimal coordinator of one transactional id, and its partitions.

Responses are immediate; a test may lose or delay them. As in Kafka, partitions refuse records that the
coordinator does not have in an open transaction (KIP-890), and newer epochs fence older ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from tests.support.transactions.producers import (
    add_offsets_response,
    add_partitions_response,
    end_txn_response,
    init_producer_id_response,
    txn_offset_commit_response,
)
from tidelog.clients.producer.produce_core import BatchResult
from tidelog.clients.producer.producer_batch import ProducerBatch
from tidelog.clients.transactions.transaction_requests import CoordinatorRequest
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tidelog.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from tidelog.protocol.messages.end_txn import EndTxnRequest
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest
from tidelog.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tidelog.protocol.schema import ApiMessage

PRODUCER_ID = 7
E = ErrorCode


class SentBatch(NamedTuple):
    """The contents of a batch, for a test that delivers it late."""

    partition: TopicPartition
    epoch: int
    base_sequence: int
    values: tuple[bytes, ...]


def sent_batch(batch: ProducerBatch) -> SentBatch:
    values = tuple(record.value or b"" for record in batch.records())
    return SentBatch(batch.topic_partition, batch.producer.producer_epoch, batch.base_sequence, values)


class _Partition:
    """A log of open, committed and aborted (value, offset) pairs, and its producer state."""

    def __init__(self) -> None:
        self.end_offset = 0
        self.epoch = -1
        self.next_sequence = 0
        self.open: list[tuple[int, bytes]] = []
        self.committed: list[tuple[int, bytes]] = []
        self.written: dict[tuple[int, int], int] = {}

    def mark(self, epoch: int, *, committed: bool) -> None:
        if committed:
            self.committed += self.open
        self.open = []
        self.end_offset += 1
        if epoch > self.epoch:
            self.epoch, self.next_sequence = epoch, 0


class NaiveCluster:
    """The coordinator of one transactional id, its partitions, and one group's offsets."""

    def __init__(self, *, is_v2: bool) -> None:
        self.is_v2 = is_v2
        self.epoch = -1
        self.last_epoch = -1
        self.is_open = False
        self.last_result: bool | None = None
        self.members: set[TopicPartition] = set()
        self.partitions: dict[TopicPartition, _Partition] = defaultdict(_Partition)
        self.open_offsets: dict[TopicPartition, int] = {}
        self.offsets: dict[TopicPartition, int] = {}

    def respond(self, request: CoordinatorRequest) -> ApiMessage:
        """Return the coordinator's response to a request of a producer."""
        message: Any = request.make(request.highest_version)
        match message:
            case InitProducerIdRequest():
                return self._init(message.producer_id, message.producer_epoch)
            case AddPartitionsToTxnRequest():
                added = _places(message.v3_and_below_topics)
                if message.v3_and_below_producer_epoch != self.epoch:
                    return add_partitions_response(*added, code=E.PRODUCER_FENCED)
                self.is_open = True
                self.members.update(added)
                return add_partitions_response(*added)
            case AddOffsetsToTxnRequest():
                if message.producer_epoch != self.epoch:
                    return add_offsets_response(E.PRODUCER_FENCED)
                self.is_open = True
                return add_offsets_response()
            case TxnOffsetCommitRequest():
                return self._commit_offsets(message)
            case _:
                assert isinstance(message, EndTxnRequest)
                return self._end(message)

    def refuse(self, request: CoordinatorRequest, code: ErrorCode) -> ApiMessage:
        """Return a response with only this error."""
        message: Any = request.make(request.highest_version)
        match message:
            case InitProducerIdRequest():
                return init_producer_id_response(code=code)
            case AddPartitionsToTxnRequest():
                return add_partitions_response(*_places(message.v3_and_below_topics), code=code)
            case AddOffsetsToTxnRequest():
                return add_offsets_response(code)
            case TxnOffsetCommitRequest():
                return txn_offset_commit_response(dict.fromkeys(_offsets(message), code))
            case _:
                return end_txn_response(code)

    def produce(self, batch: SentBatch) -> BatchResult:
        """Return the response of a partition leader to a batch."""
        partition = self.partitions[batch.partition]
        if batch.epoch < partition.epoch:
            return BatchResult(E.INVALID_PRODUCER_EPOCH)
        place = partition.written.get((batch.epoch, batch.base_sequence))
        if place is not None:
            return BatchResult(E.DUPLICATE_SEQUENCE_NUMBER, place)
        if batch.epoch != self.epoch:
            return BatchResult(E.INVALID_PRODUCER_EPOCH)
        if not self.is_v2 and batch.partition not in self.members:
            return BatchResult(E.INVALID_TXN_STATE)
        expected = partition.next_sequence if batch.epoch == partition.epoch else 0
        if batch.base_sequence != expected:
            return BatchResult(E.OUT_OF_ORDER_SEQUENCE_NUMBER)
        self.is_open = True
        self.members.add(batch.partition)
        offset = partition.end_offset
        partition.epoch = batch.epoch
        partition.next_sequence = expected + len(batch.values)
        partition.written[batch.epoch, batch.base_sequence] = offset
        partition.open += [(offset + index, value) for index, value in enumerate(batch.values)]
        partition.end_offset += len(batch.values)
        return BatchResult(E.NONE, offset)

    def _init(self, producer_id: int, epoch: int) -> ApiMessage:
        if producer_id != -1:
            if epoch == self.last_epoch and not self.is_open:
                return init_producer_id_response(PRODUCER_ID, self.epoch)
            if epoch != self.epoch:
                return init_producer_id_response(code=E.PRODUCER_FENCED)
        if self.is_open:
            self._finish(self.epoch + 1, committed=False)
            self.epoch, self.last_epoch = self.epoch + 1, -1
            return init_producer_id_response(code=E.CONCURRENT_TRANSACTIONS)
        self.last_epoch = self.epoch if producer_id != -1 else -1
        self.epoch += 1
        return init_producer_id_response(PRODUCER_ID, self.epoch)

    def _commit_offsets(self, message: TxnOffsetCommitRequest) -> ApiMessage:
        offsets = _offsets(message)
        if message.producer_epoch != self.epoch:
            return txn_offset_commit_response(dict.fromkeys(offsets, E.INVALID_PRODUCER_EPOCH))
        if not self.is_v2 and not self.is_open:
            return txn_offset_commit_response(dict.fromkeys(offsets, E.INVALID_TXN_STATE))
        self.is_open = True
        self.open_offsets |= offsets
        return txn_offset_commit_response(dict.fromkeys(offsets, E.NONE))

    def _end(self, message: EndTxnRequest) -> ApiMessage:
        if message.producer_epoch != self.epoch:
            is_retry = self.is_v2 and message.producer_epoch == self.last_epoch and not self.is_open
            if is_retry and self.last_result is message.committed:
                return end_txn_response(E.NONE, PRODUCER_ID, self.epoch)
            return end_txn_response(E.PRODUCER_FENCED)
        if not self.is_open:
            if self.is_v2 and not message.committed:
                self.last_epoch, self.epoch = self.epoch, self.epoch + 1
                self.last_result = False
                return end_txn_response(E.NONE, PRODUCER_ID, self.epoch)
            same = self.last_result is message.committed
            return end_txn_response(E.NONE if same and not self.is_v2 else E.INVALID_TXN_STATE)
        if not self.is_v2:
            self._finish(self.epoch, committed=message.committed)
            return end_txn_response()
        self._finish(self.epoch + 1, committed=message.committed)
        self.last_epoch, self.epoch = self.epoch, self.epoch + 1
        return end_txn_response(E.NONE, PRODUCER_ID, self.epoch)

    def _finish(self, marker_epoch: int, *, committed: bool) -> None:
        for member in self.members:
            self.partitions[member].mark(marker_epoch, committed=committed)
        if committed:
            self.offsets |= self.open_offsets
        self.open_offsets = {}
        self.members = set()
        self.is_open = False
        self.last_result = committed


def _places(topics: Iterable[AddPartitionsToTxnTopic]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic.name, number) for topic in topics for number in topic.partitions)


def _offsets(message: TxnOffsetCommitRequest) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name, entry.partition_index): entry.committed_offset
        for topic in message.topics
        for entry in topic.partitions
    }
