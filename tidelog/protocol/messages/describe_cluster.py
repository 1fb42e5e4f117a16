"""The request and the response of the DescribeCluster API (key 60).

Source: DescribeClusterRequest.json and DescribeClusterResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import (
    ApiMessage,
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    String,
    Struct,
    Versions,
    message,
    versions,
)


@message
class DescribeClusterRequest(ApiMessage):
    """The request of the `DescribeCluster` API (key 60), versions 0-2."""

    api_key: ClassVar[int] = 60
    valid_versions: ClassVar[Versions] = versions("0-2")
    flexible_versions: ClassVar[Versions] = versions("0+")

    include_cluster_authorized_operations: Annotated[bool, Bool("0+")] = False
    endpoint_type: Annotated[int, Int8("1+")] = 1
    include_fenced_brokers: Annotated[bool, Bool("2+")] = False


@message
class DescribeClusterBroker(Struct):
    """One entry of `brokers` of `DescribeClusterResponse`."""

    broker_id: Annotated[int, Int32("0+")] = 0
    host: Annotated[str, String("0+")] = ""
    port: Annotated[int, Int32("0+")] = 0
    rack: Annotated[str | None, String("0+", nullable="0+")] = None
    is_fenced: Annotated[bool, Bool("2+")] = False


@message
class DescribeClusterResponse(ApiMessage):
    """The response of the `DescribeCluster` API (key 60), versions 0-2."""

    api_key: ClassVar[int] = 60
    valid_versions: ClassVar[Versions] = versions("0-2")
    flexible_versions: ClassVar[Versions] = versions("0+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
    endpoint_type: Annotated[int, Int8("1+")] = 1
    cluster_id: Annotated[str, String("0+")] = ""
    controller_id: Annotated[int, Int32("0+")] = -1
    brokers: Annotated[tuple[DescribeClusterBroker, ...], Array(DescribeClusterBroker, "0+")] = ()
    cluster_authorized_operations: Annotated[int, Int32("0+")] = -2147483648
