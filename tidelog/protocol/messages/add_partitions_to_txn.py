"""The request and the response of the AddPartitionsToTxn API (key 24).

Source: AddPartitionsToTxnRequest.json and AddPartitionsToTxnResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import (
    ApiMessage,
    Array,
    Bool,
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
class AddPartitionsToTxnTopic(Struct):
    """One entry of `topics` of `AddPartitionsToTxnRequest`."""

    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()


@message
class AddPartitionsToTxnTransaction(Struct):
    """One entry of `transactions` of `AddPartitionsToTxnRequest`."""

    transactional_id: Annotated[str, String("4+")] = ""
    producer_id: Annotated[int, Int64("4+")] = 0
    producer_epoch: Annotated[int, Int16("4+")] = 0
    verify_only: Annotated[bool, Bool("4+")] = False
    topics: Annotated[tuple[AddPartitionsToTxnTopic, ...], Array(AddPartitionsToTxnTopic, "4+")] = ()


@message
class AddPartitionsToTxnRequest(ApiMessage):
    """The request of the `AddPartitionsToTxn` API (key 24), versions 0-5."""

    api_key: ClassVar[int] = 24
    valid_versions: ClassVar[Versions] = versions("0-5")
    flexible_versions: ClassVar[Versions] = versions("3+")

    transactions: Annotated[
        tuple[AddPartitionsToTxnTransaction, ...], Array(AddPartitionsToTxnTransaction, "4+")
    ] = ()
    v3_and_below_transactional_id: Annotated[str, String("0-3")] = ""
    v3_and_below_producer_id: Annotated[int, Int64("0-3")] = 0
    v3_and_below_producer_epoch: Annotated[int, Int16("0-3")] = 0
    v3_and_below_topics: Annotated[
        tuple[AddPartitionsToTxnTopic, ...], Array(AddPartitionsToTxnTopic, "0-3")
    ] = ()


@message
class AddPartitionsToTxnPartitionResult(Struct):
    """One entry of `results_by_partition` of `AddPartitionsToTxnResponse`."""

    partition_index: Annotated[int, Int32("0+")] = 0
    partition_error_code: Annotated[int, Int16("0+")] = 0


@message
class AddPartitionsToTxnTopicResult(Struct):
    """One entry of `topic_results` of `AddPartitionsToTxnResponse`."""

    name: Annotated[str, String("0+")] = ""
    results_by_partition: Annotated[
        tuple[AddPartitionsToTxnPartitionResult, ...], Array(AddPartitionsToTxnPartitionResult, "0+")
    ] = ()


@message
class AddPartitionsToTxnResult(Struct):
    """One entry of `results_by_transaction` of `AddPartitionsToTxnResponse`."""

    transactional_id: Annotated[str, String("4+")] = ""
    topic_results: Annotated[
        tuple[AddPartitionsToTxnTopicResult, ...], Array(AddPartitionsToTxnTopicResult, "4+")
    ] = ()


@message
class AddPartitionsToTxnResponse(ApiMessage):
    """The response of the `AddPartitionsToTxn` API (key 24), versions 0-5."""

    api_key: ClassVar[int] = 24
    valid_versions: ClassVar[Versions] = versions("0-5")
    flexible_versions: ClassVar[Versions] = versions("3+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("4+", ignorable=True)] = 0
    results_by_transaction: Annotated[
        tuple[AddPartitionsToTxnResult, ...], Array(AddPartitionsToTxnResult, "4+")
    ] = ()
    results_by_topic_v3_and_below: Annotated[
        tuple[AddPartitionsToTxnTopicResult, ...], Array(AddPartitionsToTxnTopicResult, "0-3")
    ] = ()
