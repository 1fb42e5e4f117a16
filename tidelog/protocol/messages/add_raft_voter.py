"""The request and the response of the AddRaftVoter API (key 80).

Source: AddRaftVoterRequest.json and AddRaftVoterResponse.json, Apache Kafka 4.3.
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
    UInt16,
    Uuid,
    Versions,
    message,
    versions,
)


@message
class Listener(Struct):
    """One entry of `listeners` of `AddRaftVoterRequest`."""

    name: Annotated[str, String("0+")] = ""
    host: Annotated[str, String("0+")] = ""
    port: Annotated[int, UInt16("0+")] = 0


@message
class AddRaftVoterRequest(ApiMessage):
    """The request of the `AddRaftVoter` API (key 80), versions 0-1."""

    api_key: ClassVar[int] = 80
    valid_versions: ClassVar[Versions] = versions("0-1")
    flexible_versions: ClassVar[Versions] = versions("0+")

    cluster_id: Annotated[str | None, String("0+", nullable="0+")] = ""
    timeout_ms: Annotated[int, Int32("0+")] = 0
    voter_id: Annotated[int, Int32("0+")] = 0
    voter_directory_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    listeners: Annotated[tuple[Listener, ...], Array(Listener, "0+")] = ()
    ack_when_committed: Annotated[bool, Bool("1+")] = True


@message
class AddRaftVoterResponse(ApiMessage):
    """The response of the `AddRaftVoter` API (key 80), versions 0-1."""

    api_key: ClassVar[int] = 80
    valid_versions: ClassVar[Versions] = versions("0-1")
    flexible_versions: ClassVar[Versions] = versions("0+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+", ignorable=True)] = ""
