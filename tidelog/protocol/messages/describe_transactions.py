"""The request and the response of the DescribeTransactions API (key 65).

Source: DescribeTransactionsRequest.json and DescribeTransactionsResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import (
    ApiMessage,
    Array,
    Int16,
    Int32,
    Int64,
    String,
    Struct,
    Versions,
    message,
    versions,
)


@message
class DescribeTransactionsRequest(ApiMessage):
    """The request of the `DescribeTransactions` API (key 65), version 0."""

    api_key: ClassVar[int] = 65
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    transactional_ids: Annotated[tuple[str, ...], Array(String, "0+")] = ()


@message
class TopicData(Struct):
    """One entry of `topics` of `DescribeTransactionsResponse`."""

    topic: Annotated[str, String("0+")] = ""
    partitions: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()


@message
class TransactionState(Struct):
    """One entry of `transaction_states` of `DescribeTransactionsResponse`."""

    error_code: Annotated[int, Int16("0+")] = 0
    transactional_id: Annotated[str, String("0+")] = ""
    transaction_state: Annotated[str, String("0+")] = ""
    transaction_timeout_ms: Annotated[int, Int32("0+")] = 0
    transaction_start_time_ms: Annotated[int, Int64("0+")] = 0
    producer_id: Annotated[int, Int64("0+")] = 0
    producer_epoch: Annotated[int, Int16("0+")] = 0
    topics: Annotated[tuple[TopicData, ...], Array(TopicData, "0+")] = ()


@message
class DescribeTransactionsResponse(ApiMessage):
    """The response of the `DescribeTransactions` API (key 65), version 0."""

    api_key: ClassVar[int] = 65
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    transaction_states: Annotated[tuple[TransactionState, ...], Array(TransactionState, "0+")] = ()
