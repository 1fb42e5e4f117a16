"""The request and the response of the RemoveRaftVoter API (key 81).

Source: RemoveRaftVoterRequest.json and RemoveRaftVoterResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar
from uuid import UUID

from tidelog.protocol.schema import (
    ZERO_UUID,
    ApiMessage,
    Int16,
    Int32,
    String,
    Uuid,
    Versions,
    message,
    versions,
)


@message
class RemoveRaftVoterRequest(ApiMessage):
    """The request of the `RemoveRaftVoter` API (key 81), version 0."""

    api_key: ClassVar[int] = 81
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    cluster_id: Annotated[str | None, String("0+", nullable="0+")] = ""
    voter_id: Annotated[int, Int32("0+")] = 0
    voter_directory_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID


@message
class RemoveRaftVoterResponse(ApiMessage):
    """The response of the `RemoveRaftVoter` API (key 81), version 0."""

    api_key: ClassVar[int] = 81
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+", ignorable=True)] = ""
