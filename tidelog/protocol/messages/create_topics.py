"""The request and the response of the CreateTopics API (key 19).

Source: CreateTopicsRequest.json and CreateTopicsResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar
from uuid import UUID

from tidelog.protocol.schema import (
    ZERO_UUID,
    ApiMessage,
    Array,
    Bool,
    Int8,
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
class CreatableReplicaAssignment(Struct):
    """One entry of `assignments` of `CreateTopicsRequest`."""

    partition_index: Annotated[int, Int32("0+")] = 0
    broker_ids: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()


@message
class CreatableTopicConfig(Struct):
    """One entry of `configs` of `CreateTopicsRequest`."""

    name: Annotated[str, String("0+")] = ""
    value: Annotated[str | None, String("0+", nullable="0+")] = ""


@message
class CreatableTopic(Struct):
    """One entry of `topics` of `CreateTopicsRequest`."""

    name: Annotated[str, String("0+")] = ""
    num_partitions: Annotated[int, Int32("0+")] = 0
    replication_factor: Annotated[int, Int16("0+")] = 0
    assignments: Annotated[
        tuple[CreatableReplicaAssignment, ...], Array(CreatableReplicaAssignment, "0+")
    ] = ()
    configs: Annotated[tuple[CreatableTopicConfig, ...], Array(CreatableTopicConfig, "0+")] = ()


@message
class CreateTopicsRequest(ApiMessage):
    """The request of the `CreateTopics` API (key 19), versions 2-7."""

    api_key: ClassVar[int] = 19
    valid_versions: ClassVar[Versions] = versions("2-7")
    flexible_versions: ClassVar[Versions] = versions("5+")

    topics: Annotated[tuple[CreatableTopic, ...], Array(CreatableTopic, "0+")] = ()
    timeout_ms: Annotated[int, Int32("0+")] = 60000
    validate_only: Annotated[bool, Bool("1+")] = False


@message
class CreatableTopicConfigs(Struct):
    """One entry of `configs` of `CreateTopicsResponse`."""

    name: Annotated[str, String("5+")] = ""
    value: Annotated[str | None, String("5+", nullable="5+")] = ""
    read_only: Annotated[bool, Bool("5+")] = False
    config_source: Annotated[int, Int8("5+", ignorable=True)] = -1
    is_sensitive: Annotated[bool, Bool("5+")] = False


@message
class CreatableTopicResult(Struct):
    """One entry of `topics` of `CreateTopicsResponse`."""

    name: Annotated[str, String("0+")] = ""
    topic_id: Annotated[UUID, Uuid("7+", ignorable=True)] = ZERO_UUID
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("1+", nullable="0+", ignorable=True)] = ""
    topic_config_error_code: Annotated[int, Int16("5+", tag=0, tagged="5+", ignorable=True)] = 0
    num_partitions: Annotated[int, Int32("5+", ignorable=True)] = -1
    replication_factor: Annotated[int, Int16("5+", ignorable=True)] = -1
    configs: Annotated[
        tuple[CreatableTopicConfigs, ...] | None,
        Array(CreatableTopicConfigs, "5+", nullable="5+", ignorable=True),
    ] = ()


@message
class CreateTopicsResponse(ApiMessage):
    """The response of the `CreateTopics` API (key 19), versions 2-7."""

    api_key: ClassVar[int] = 19
    valid_versions: ClassVar[Versions] = versions("2-7")
    flexible_versions: ClassVar[Versions] = versions("5+")

    throttle_time_ms: Annotated[int, Int32("2+", ignorable=True)] = 0
    topics: Annotated[tuple[CreatableTopicResult, ...], Array(CreatableTopicResult, "0+")] = ()
