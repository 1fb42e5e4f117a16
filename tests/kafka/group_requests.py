"""Requests for a group of another type, and their results, for comparisons of share and streams groups."""

from __future__ import annotations

from tests.support.network.raw_client import RawClient
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tidelog.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from tidelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse


def delete_group(client: RawClient, group_id: str) -> ErrorCode:
    """Delete the group; return the error."""
    request = DeleteGroupsRequest(groups_names=(group_id,))
    return ErrorCode(client.send_request(request, 2, DeleteGroupsResponse).results[0].error_code)


def errors_of_consumers(
    client: RawClient, group_id: str, topic: str
) -> tuple[ErrorCode, ErrorCode, str | None]:
    """Return the errors that consumers get when they join the group with both of their protocols."""
    join = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
    )
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id="c",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=(topic,),
        topic_partitions=(),
    )
    joined = client.send_request(heartbeat, 1, ConsumerGroupHeartbeatResponse)
    return (
        ErrorCode(client.send_request(join, 9, JoinGroupResponse).error_code),
        ErrorCode(joined.error_code),
        joined.error_message,
    )
