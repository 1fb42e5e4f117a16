"""Whose transaction a request writes to, and what its client can be told.

| support | Produce | TxnOffsetCommit | the client |
|---|---|---|---|
| INVALID_STATE | 3-10 | 0-3 | learns of what only an abort can mend as INVALID_TXN_STATE |
| ABORTABLE | 11 | 4 | knows TRANSACTION_ABORTABLE |
| ADDS_PARTITIONS | 12-13 | 5 | counts on us to add partitions to its transaction (transaction.version 2) |

Source: KIP-890, KIP-1050; TransactionSupportedOperation of Apache Kafka 4.3.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from tidelog.protocol.ids import ProducerEpoch, ProducerId

_PRODUCE_ABORTABLE: Final = 11
_PRODUCE_ADDS_PARTITIONS: Final = 12
_TXN_OFFSET_COMMIT_ABORTABLE: Final = 4
_TXN_OFFSET_COMMIT_ADDS_PARTITIONS: Final = 5


class ClientSupport(Enum):
    """What a client knows of transactions; see the table."""

    INVALID_STATE = 0
    ABORTABLE = 1
    ADDS_PARTITIONS = 2

    @classmethod
    def of_produce(cls, version: int) -> ClientSupport:
        """That of who sends this version of Produce."""
        return cls._of(version, _PRODUCE_ABORTABLE, _PRODUCE_ADDS_PARTITIONS)

    @classmethod
    def of_txn_offset_commit(cls, version: int) -> ClientSupport:
        """That of who sends this version of TxnOffsetCommit."""
        return cls._of(version, _TXN_OFFSET_COMMIT_ABORTABLE, _TXN_OFFSET_COMMIT_ADDS_PARTITIONS)

    @classmethod
    def _of(cls, version: int, abortable: int, adds_partitions: int) -> ClientSupport:
        if version >= adds_partitions:
            return cls.ADDS_PARTITIONS
        return cls.ABORTABLE if version >= abortable else cls.INVALID_STATE


class ProducerTransaction(NamedTuple):
    """The transaction that a request says it is part of."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    support: ClientSupport
