"""Fetch on the hot path: `protocol.fetch_request_view` and `protocol.fetch_response_view` together."""

from tidelog.protocol.fetch_request_view import (
    UNKNOWN_HIGH_WATERMARK,
    FetchPartition,
    FetchRequestView,
    read_fetch_request,
)
from tidelog.protocol.fetch_response_view import (
    AbortedRange,
    FetchPartitionResult,
    FetchResult,
    Records,
    RecordsRange,
    ResponsePart,
    encode_fetch_response,
)
from tidelog.protocol.response_parts import NodeEndpoint

__all__ = [
    "UNKNOWN_HIGH_WATERMARK",
    "AbortedRange",
    "FetchPartition",
    "FetchPartitionResult",
    "FetchRequestView",
    "FetchResult",
    "NodeEndpoint",
    "Records",
    "RecordsRange",
    "ResponsePart",
    "encode_fetch_response",
    "read_fetch_request",
]
