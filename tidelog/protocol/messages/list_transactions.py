"""The request and the response of the ListTransactions API (key 66).

Source: ListTransactionsRequest.json and ListTransactionsResponse.json, Apache Kafka 4.3.
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
class ListTransactionsRequest(ApiMessage):
    """The request of the `ListTransactions` API (key 66), versions 0-2."""

    api_key: ClassVar[int] = 66
    valid_versions: ClassVar[Versions] = versions("0-2")
    flexible_versions: ClassVar[Versions] = versions("0+")

    state_filters: Annotated[tuple[str, ...], Array(String, "0+")] = ()
    producer_id_filters: Annotated[tuple[int, ...], Array(Int64, "0+")] = ()
    duration_filter: Annotated[int, Int64("1+")] = -1
    transactional_id_pattern: Annotated[str | None, String("2+", nullable="2+")] = None


@message
class TransactionState(Struct):
    """One entry of `transaction_states` of `ListTransactionsResponse`."""

    transactional_id: Annotated[str, String("0+")] = ""
    producer_id: Annotated[int, Int64("0+")] = 0
    transaction_state: Annotated[str, String("0+")] = ""


@message
class ListTransactionsResponse(ApiMessage):
    """The response of the `ListTransactions` API (key 66), versions 0-2."""

    api_key: ClassVar[int] = 66
    valid_versions: ClassVar[Versions] = versions("0-2")
    flexible_versions: ClassVar[Versions] = versions("0+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    unknown_state_filters: Annotated[tuple[str, ...], Array(String, "0+")] = ()
    transaction_states: Annotated[tuple[TransactionState, ...], Array(TransactionState, "0+")] = ()
