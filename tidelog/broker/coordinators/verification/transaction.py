"""The transaction that a request writes to, and the errors that its client supports.

| support | Produce | TxnOffsetCommit | the client |
|---|---|---|---|
| INVALID_STATE | 3-10 | 0-3 | gets INVALID_TXN_STATE for errors that require an abort |
| ABORTABLE | 11 | 4 | supports TRANSACTION_ABORTABLE |
| ADDS_PARTITIONS | 12-13 | 5 | relies on the broker to add partitions (transaction.version 2) |

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
    """The level of a client's transaction support; the table at the head of the file describes each."""

    INVALID_STATE = 0
    ABORTABLE = 1
    ADDS_PARTITIONS = 2

    @classmethod
    def of_produce(cls, version: int) -> ClientSupport:
        """Return the support of a client that sends this version of Produce."""
        return cls._of(version, _PRODUCE_ABORTABLE, _PRODUCE_ADDS_PARTITIONS)

    @classmethod
    def of_txn_offset_commit(cls, version: int) -> ClientSupport:
        """Return the support of a client that sends this version of TxnOffsetCommit."""
        return cls._of(version, _TXN_OFFSET_COMMIT_ABORTABLE, _TXN_OFFSET_COMMIT_ADDS_PARTITIONS)

    @classmethod
    def _of(cls, version: int, abortable: int, adds_partitions: int) -> ClientSupport:
        if version >= adds_partitions:
            return cls.ADDS_PARTITIONS
        return cls.ABORTABLE if version >= abortable else cls.INVALID_STATE


class ProducerTransaction(NamedTuple):
    """The transaction that a request writes to."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    support: ClientSupport
