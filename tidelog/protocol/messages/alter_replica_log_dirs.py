"""The request and the response of the AlterReplicaLogDirs API (key 34).

Source: AlterReplicaLogDirsRequest.json and AlterReplicaLogDirsResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import (
    ApiMessage,
    Array,
    Int16,
    Int32,
    String,
    Struct,
    Versions,
    message,
    versions,
)


@message
class AlterReplicaLogDirTopic(Struct):
    """One entry of `topics` of `AlterReplicaLogDirsRequest`."""

    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()


@message
class AlterReplicaLogDir(Struct):
    """One entry of `dirs` of `AlterReplicaLogDirsRequest`."""

    path: Annotated[str, String("0+")] = ""
    topics: Annotated[tuple[AlterReplicaLogDirTopic, ...], Array(AlterReplicaLogDirTopic, "0+")] = ()


@message
class AlterReplicaLogDirsRequest(ApiMessage):
    """The request of the `AlterReplicaLogDirs` API (key 34), versions 1-2."""

    api_key: ClassVar[int] = 34
    valid_versions: ClassVar[Versions] = versions("1-2")
    flexible_versions: ClassVar[Versions] = versions("2+")

    dirs: Annotated[tuple[AlterReplicaLogDir, ...], Array(AlterReplicaLogDir, "0+")] = ()


@message
class AlterReplicaLogDirPartitionResult(Struct):
    """One entry of `partitions` of `AlterReplicaLogDirsResponse`."""

    partition_index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0


@message
class AlterReplicaLogDirTopicResult(Struct):
    """One entry of `results` of `AlterReplicaLogDirsResponse`."""

    topic_name: Annotated[str, String("0+")] = ""
    partitions: Annotated[
        tuple[AlterReplicaLogDirPartitionResult, ...], Array(AlterReplicaLogDirPartitionResult, "0+")
    ] = ()


@message
class AlterReplicaLogDirsResponse(ApiMessage):
    """The response of the `AlterReplicaLogDirs` API (key 34), versions 1-2."""

    api_key: ClassVar[int] = 34
    valid_versions: ClassVar[Versions] = versions("1-2")
    flexible_versions: ClassVar[Versions] = versions("2+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    results: Annotated[
        tuple[AlterReplicaLogDirTopicResult, ...], Array(AlterReplicaLogDirTopicResult, "0+")
    ] = ()
