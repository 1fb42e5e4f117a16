"""The request and the response of the DescribeLogDirs API (key 35).

Source: DescribeLogDirsRequest.json and DescribeLogDirsResponse.json, Apache Kafka 4.3.
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
class DescribableLogDirTopic(Struct):
    """One entry of `topics` of `DescribeLogDirsRequest`."""

    topic: Annotated[str, String("0+")] = ""
    partitions: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()


@message
class DescribeLogDirsRequest(ApiMessage):
    """The request of the `DescribeLogDirs` API (key 35), versions 1-5."""

    api_key: ClassVar[int] = 35
    valid_versions: ClassVar[Versions] = versions("1-5")
    flexible_versions: ClassVar[Versions] = versions("2+")

    topics: Annotated[
        tuple[DescribableLogDirTopic, ...] | None, Array(DescribableLogDirTopic, "0+", nullable="0+")
    ] = ()


@message
class DescribeLogDirsPartition(Struct):
    """One entry of `partitions` of `DescribeLogDirsResponse`."""

    partition_index: Annotated[int, Int32("0+")] = 0
    partition_size: Annotated[int, Int64("0+")] = 0
    offset_lag: Annotated[int, Int64("0+")] = 0
    is_future_key: Annotated[bool, Bool("0+")] = False


@message
class DescribeLogDirsTopic(Struct):
    """One entry of `topics` of `DescribeLogDirsResponse`."""

    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[tuple[DescribeLogDirsPartition, ...], Array(DescribeLogDirsPartition, "0+")] = ()


@message
class DescribeLogDirsResult(Struct):
    """One entry of `results` of `DescribeLogDirsResponse`."""

    error_code: Annotated[int, Int16("0+")] = 0
    log_dir: Annotated[str, String("0+")] = ""
    topics: Annotated[tuple[DescribeLogDirsTopic, ...], Array(DescribeLogDirsTopic, "0+")] = ()
    total_bytes: Annotated[int, Int64("4+", ignorable=True)] = -1
    usable_bytes: Annotated[int, Int64("4+", ignorable=True)] = -1
    is_cordoned: Annotated[bool, Bool("5+", ignorable=True)] = False


@message
class DescribeLogDirsResponse(ApiMessage):
    """The response of the `DescribeLogDirs` API (key 35), versions 1-5."""

    api_key: ClassVar[int] = 35
    valid_versions: ClassVar[Versions] = versions("1-5")
    flexible_versions: ClassVar[Versions] = versions("2+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("3+", ignorable=True)] = 0
    results: Annotated[tuple[DescribeLogDirsResult, ...], Array(DescribeLogDirsResult, "0+")] = ()
