"""The request and the response of the Metadata API (key 3).

Source: MetadataRequest.json and MetadataResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar
from uuid import UUID

from tidelog.protocol.schema import (
    ZERO_UUID,
    ApiMessage,
    Array,
    Bool,
    Int16,
    Int32,
    String,
    Struct,
    Uuid,
    Versions,
    message,
    versions,
)


@message
class MetadataRequestTopic(Struct):
    """One entry of `topics` of `MetadataRequest`."""

    topic_id: Annotated[UUID, Uuid("10+", ignorable=True)] = ZERO_UUID
    name: Annotated[str | None, String("0+", nullable="10+")] = ""


@message
class MetadataRequest(ApiMessage):
    """The request of the `Metadata` API (key 3), versions 0-13."""

    api_key: ClassVar[int] = 3
    valid_versions: ClassVar[Versions] = versions("0-13")
    flexible_versions: ClassVar[Versions] = versions("9+")

    topics: Annotated[
        tuple[MetadataRequestTopic, ...] | None, Array(MetadataRequestTopic, "0+", nullable="1+")
    ] = ()
    allow_auto_topic_creation: Annotated[bool, Bool("4+")] = True
    include_cluster_authorized_operations: Annotated[bool, Bool("8-10")] = False
    include_topic_authorized_operations: Annotated[bool, Bool("8+")] = False


@message
class MetadataResponseBroker(Struct):
    """One entry of `brokers` of `MetadataResponse`."""

    node_id: Annotated[int, Int32("0+")] = 0
    host: Annotated[str, String("0+")] = ""
    port: Annotated[int, Int32("0+")] = 0
    rack: Annotated[str | None, String("1+", nullable="1+", ignorable=True)] = None


@message
class MetadataResponsePartition(Struct):
    """One entry of `partitions` of `MetadataResponse`."""

    error_code: Annotated[int, Int16("0+")] = 0
    partition_index: Annotated[int, Int32("0+")] = 0
    leader_id: Annotated[int, Int32("0+")] = 0
    leader_epoch: Annotated[int, Int32("7+", ignorable=True)] = -1
    replica_nodes: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()
    isr_nodes: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()
    offline_replicas: Annotated[tuple[int, ...], Array(Int32, "5+", ignorable=True)] = ()


@message
class MetadataResponseTopic(Struct):
    """One entry of `topics` of `MetadataResponse`."""

    error_code: Annotated[int, Int16("0+")] = 0
    name: Annotated[str | None, String("0+", nullable="12+")] = ""
    topic_id: Annotated[UUID, Uuid("10+", ignorable=True)] = ZERO_UUID
    is_internal: Annotated[bool, Bool("1+", ignorable=True)] = False
    partitions: Annotated[tuple[MetadataResponsePartition, ...], Array(MetadataResponsePartition, "0+")] = ()
    topic_authorized_operations: Annotated[int, Int32("8+")] = -2147483648


@message
class MetadataResponse(ApiMessage):
    """The response of the `Metadata` API (key 3), versions 0-13."""

    api_key: ClassVar[int] = 3
    valid_versions: ClassVar[Versions] = versions("0-13")
    flexible_versions: ClassVar[Versions] = versions("9+")

    throttle_time_ms: Annotated[int, Int32("3+", ignorable=True)] = 0
    brokers: Annotated[tuple[MetadataResponseBroker, ...], Array(MetadataResponseBroker, "0+")] = ()
    cluster_id: Annotated[str | None, String("2+", nullable="2+", ignorable=True)] = None
    controller_id: Annotated[int, Int32("1+", ignorable=True)] = -1
    topics: Annotated[tuple[MetadataResponseTopic, ...], Array(MetadataResponseTopic, "0+")] = ()
    cluster_authorized_operations: Annotated[int, Int32("8-10")] = -2147483648
    error_code: Annotated[int, Int16("13+", ignorable=True)] = 0
