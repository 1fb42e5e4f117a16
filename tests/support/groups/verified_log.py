"""`TransactionalLog` in which every partition is part of every transaction."""

from __future__ import annotations

from tests.support.groups.state_log import MemoryStateLog
from tidelog.broker.coordinators.groups.transactions import EndOfTransaction, TransactionalProducer
from tidelog.broker.coordinators.shared.encoded_records import EncodedRecords
from tidelog.broker.coordinators.shared.state_log import AppendedRecords
from tidelog.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest


class VerifiedLog:
    """Writes of transactions to a log in memory, without verification."""

    def __init__(self, log: MemoryStateLog) -> None:
        self._log = log

    async def verify_producer(
        self, partition: int, request: TxnOffsetCommitRequest, version: int
    ) -> TransactionalProducer:
        return TransactionalProducer(request.producer_id, request.producer_epoch, None)

    def append_in_transaction(
        self, partition: int, encoded: EncodedRecords, producer: TransactionalProducer
    ) -> AppendedRecords:
        return self._log.append(partition, encoded)

    def append_marker(self, partition: int, end: EndOfTransaction) -> AppendedRecords:
        return self._log.append(partition, EncodedRecords([(b"marker", None)]))
