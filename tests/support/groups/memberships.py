"""A membership of a classic group, and its responses."""

from __future__ import annotations

from tidelog.clients.groups.membership import Membership
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.join_group import JoinGroupResponse

OFFERS = [("range", b"subscription")]


def member(group_instance_id: str | None = None) -> Membership:
    return Membership(
        "harbour",
        group_instance_id=group_instance_id,
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        heartbeat_interval_ms=3_000,
    )


def join_response(
    error: ErrorCode = ErrorCode.NONE, *, leader: str = "m-1", generation: int = 1, **fields: object
) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error,
        generation_id=generation if error is ErrorCode.NONE else -1,
        protocol_name="range",
        protocol_type="consumer",
        leader=leader,
        member_id="m-1",
        **fields,  # type: ignore[arg-type]
    )
