"""The heartbeats of a share consumer: errors that `poll` raises."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.support.waiting import eventually
from tidelog.clients.config.share_config import ShareConsumerConfig
from tidelog.clients.metadata.cluster_client import ClusterClient
from tidelog.clients.share_consumer.share_group_member import ShareGroupMember
from tidelog.clients.share_consumer.share_membership import MemberState, ShareMembership
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse


class Coordinator:
    """A cluster whose group coordinator responds to each heartbeat with `response`."""

    def __init__(self, response: ShareGroupHeartbeatResponse) -> None:
        self.network = self
        self.response = response
        self.heartbeats = 0

    def now_ms(self) -> int:
        return 0

    async def retry(self, look_up: object, deadline_ms: int) -> int:
        return 1

    async def connection(self, node_id: int, purpose: object = None) -> Coordinator:
        return self

    def version_of(self, api: object, highest_version: int | None) -> int:
        return 1

    async def request(self, *arguments: object, **options: object) -> Any:
        self.heartbeats += 1
        return self.response


async def test_each_poll_raises_the_error_with_which_the_coordinator_has_rejected_the_member() -> None:
    rejection = ShareGroupHeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    coordinator = Coordinator(rejection)
    membership = ShareMembership("g", "m", None)
    config = ShareConsumerConfig(group_id="g")
    member = ShareGroupMember(cast(ClusterClient, coordinator), config, membership, lambda: None)
    member.subscribe(frozenset({"t"}))
    await eventually(lambda: membership.state is MemberState.FATAL)
    for _ in range(3):
        with pytest.raises(KafkaError, match="share group 'g'"):
            member.on_poll()
    assert coordinator.heartbeats == 1
    await member.close(0)
