"""The records of transactions in `__transaction_state`.

Source: TransactionLogKey.json and TransactionLogValue.json of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import (
    Array,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    Versions,
    message,
    versions,
)


@message
class TransactionLogKey(Message):
    """`TransactionLogKey` (record type 0), version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("none")

    transactional_id: Annotated[str, String("0")] = ""


@message
class PartitionsSchema(Struct):
    """One entry of `transaction_partitions` of `TransactionLogValue`."""

    topic: Annotated[str, String("0+")] = ""
    partition_ids: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()


@message
class TransactionLogValue(Message):
    """`TransactionLogValue` (record type 0), versions 0-1."""

    valid_versions: ClassVar[Versions] = versions("0-1")
    flexible_versions: ClassVar[Versions] = versions("1+")

    producer_id: Annotated[int, Int64("0+")] = 0
    previous_producer_id: Annotated[int, Int64("1+", tag=0, tagged="1+")] = -1
    next_producer_id: Annotated[int, Int64("1+", tag=1, tagged="1+")] = -1
    producer_epoch: Annotated[int, Int16("0+")] = 0
    next_producer_epoch: Annotated[int, Int16("1+", tag=3, tagged="1+")] = -1
    transaction_timeout_ms: Annotated[int, Int32("0+")] = 0
    transaction_status: Annotated[int, Int8("0+")] = 0
    transaction_partitions: Annotated[
        tuple[PartitionsSchema, ...] | None, Array(PartitionsSchema, "0+", nullable="0+")
    ] = ()
    transaction_last_update_timestamp_ms: Annotated[int, Int64("0+")] = 0
    transaction_start_timestamp_ms: Annotated[int, Int64("0+")] = 0
    client_transaction_version: Annotated[int, Int16("1+", tag=2, tagged="1+")] = 0
