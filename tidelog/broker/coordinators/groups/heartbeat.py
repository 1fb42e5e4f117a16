"""Heartbeat: renews the session of a member, and returns whether it must join again."""

from __future__ import annotations

import logging

from tidelog.broker.coordinators.groups.classic.states import GroupState
from tidelog.broker.coordinators.groups.rebalance import Rebalance
from tidelog.broker.coordinators.groups.registry import GroupRegistry
from tidelog.broker.coordinators.groups.sync import check_generation
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

logger = logging.getLogger(__name__)


class HeartbeatCommand:
    """Handles Heartbeat."""

    def __init__(self, groups: GroupRegistry, rebalance: Rebalance) -> None:
        self._groups = groups
        self._rebalance = rebalance

    def heartbeat(self, request: HeartbeatRequest, now: Moment) -> HeartbeatResponse:
        """Restart the session of a member. Return REBALANCE_IN_PROGRESS if it must join again."""
        try:
            if not request.group_id:
                raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
            group = self._groups.get(request.group_id)
            if group is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {request.group_id} is unknown")
            member = group.check_member(request.member_id, request.group_instance_id)
            check_generation(group, request.generation_id)
        except KafkaError as error:
            logger.debug("Group %s rejected a heartbeat: %s", request.group_id, error)
            return HeartbeatResponse(error_code=error.code)
        self._rebalance.keep_alive(group, member, now)
        if group.state is GroupState.PREPARING_REBALANCE:
            return HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        return HeartbeatResponse()
