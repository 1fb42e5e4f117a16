"""The request and the response of the UpdateRaftVoter API (key 82).

Source: UpdateRaftVoterRequest.json and UpdateRaftVoterResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar
from uuid import UUID

from tidelog.protocol.schema import (
    ZERO_UUID,
    ApiMessage,
    Array,
    Int16,
    Int32,
    Nested,
    String,
    Struct,
    UInt16,
    Uuid,
    Versions,
    message,
    versions,
)


@message
class Listener(Struct):
    """One entry of `listeners` of `UpdateRaftVoterRequest`."""

    name: Annotated[str, String("0+")] = ""
    host: Annotated[str, String("0+")] = ""
    port: Annotated[int, UInt16("0+")] = 0


@message
class KRaftVersionFeature(Struct):
    """The struct `k_raft_version_feature` of `UpdateRaftVoterRequest`."""

    min_supported_version: Annotated[int, Int16("0+")] = 0
    max_supported_version: Annotated[int, Int16("0+")] = 0


@message
class UpdateRaftVoterRequest(ApiMessage):
    """The request of the `UpdateRaftVoter` API (key 82), version 0."""

    api_key: ClassVar[int] = 82
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    cluster_id: Annotated[str | None, String("0+", nullable="0+")] = ""
    current_leader_epoch: Annotated[int, Int32("0+")] = 0
    voter_id: Annotated[int, Int32("0+")] = 0
    voter_directory_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    listeners: Annotated[tuple[Listener, ...], Array(Listener, "0+")] = ()
    k_raft_version_feature: Annotated[KRaftVersionFeature, Nested(KRaftVersionFeature, "0+")] = (
        KRaftVersionFeature()
    )


@message
class CurrentLeader(Struct):
    """The struct `current_leader` of `UpdateRaftVoterResponse`."""

    leader_id: Annotated[int, Int32("0+")] = -1
    leader_epoch: Annotated[int, Int32("0+")] = -1
    host: Annotated[str, String("0+")] = ""
    port: Annotated[int, Int32("0+")] = 0


@message
class UpdateRaftVoterResponse(ApiMessage):
    """The response of the `UpdateRaftVoter` API (key 82), version 0."""

    api_key: ClassVar[int] = 82
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    current_leader: Annotated[CurrentLeader, Nested(CurrentLeader, "0+", tag=0, tagged="0+")] = (
        CurrentLeader()
    )
