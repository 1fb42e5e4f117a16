"""The group service of a node over logs in memory."""

from __future__ import annotations

from collections.abc import Awaitable
from uuid import UUID

from tests.support.clocks.virtual_time import VirtualTime
from tests.support.configs import group_config
from tests.support.groups.commits import commit_offsets
from tests.support.groups.ports import group_ports
from tests.support.groups.state_log import MemoryStateLog
from tests.support.loops.yields import loop_iterations
from tidelog.broker.coordinators.groups.classic.member import Client
from tidelog.broker.coordinators.groups.config import GroupConfig
from tidelog.broker.coordinators.groups.service import GroupService
from tidelog.broker.scheduling.slices import Slices
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tidelog.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tidelog.protocol.steps import run_steps

CONFIG = group_config(offsets_commit_timeout_ms=40)
GROUP = "c"  # it is stored in partition 0 of 3, "a" in partition 1
CLIENT = Client("c", "/127.0.0.1")


class GroupServiceFixture:
    """A service with its log and its time."""

    def __init__(self, log: MemoryStateLog | None = None, config: GroupConfig = CONFIG) -> None:
        self.log = log or MemoryStateLog()
        self.time = VirtualTime()
        self.service = GroupService(config, group_ports(self.log, self.time, self.time))

    async def start_serving(self, *partitions: int) -> GroupServiceFixture:
        self.service.start()
        for partition in partitions:
            self.service.on_leadership(partition)
        await self.settle()
        return self

    async def settle(self) -> None:
        """Let everything run that can run now."""
        await loop_iterations(20)

    async def commit(
        self, offset: int, group_id: str = GROUP, generation: int = -1, member_id: str = ""
    ) -> ErrorCode:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            topics=(OffsetCommitRequestTopic(name="t", topic_id=UUID(int=1), partitions=(partition,)),),
        )
        try:
            response = await self.send_commit(request)
        except KafkaError as error:
            return error.code
        return ErrorCode(response.topics[0].partitions[0].error_code)

    async def send_commit(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        return await commit_offsets(self.service, Slices(self.time), request, 9)

    async def fetch(self, group_id: str = GROUP, *, require_stable: bool = False) -> tuple[int, ErrorCode]:
        topics = (OffsetFetchRequestTopics(name="t", partition_indexes=(0,)),)
        group = OffsetFetchRequestGroup(group_id=group_id, topics=topics)
        (response,) = run_steps(await self.service.fetch_offsets((group,), require_stable))
        if response.error_code:
            return -1, ErrorCode(response.error_code)
        partition = response.topics[0].partitions[0]
        return partition.committed_offset, ErrorCode(partition.error_code)

    def join(
        self, member_id: str = "", version: int = 3, group_id: str = GROUP
    ) -> Awaitable[JoinGroupResponse]:
        request = JoinGroupRequest(
            group_id=group_id,
            member_id=member_id,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range"),),
        )
        return self.service.join(CLIENT, request, version)

    def sync(self, member_id: str, generation: int) -> Awaitable[SyncGroupResponse]:
        assignment = SyncGroupRequestAssignment(member_id=member_id, assignment=b"all")
        request = SyncGroupRequest(
            group_id=GROUP, member_id=member_id, generation_id=generation, assignments=(assignment,)
        )
        return self.service.sync(request)

    def heartbeat(self, member_id: str, generation: int = 1, group_id: str = GROUP) -> ErrorCode:
        request = HeartbeatRequest(group_id=group_id, member_id=member_id, generation_id=generation)
        response = self.service.heartbeat(request)
        assert isinstance(response, HeartbeatResponse), "all records are committed"
        return ErrorCode(response.error_code)

    async def stable_member(self) -> str:
        joined = self.join()
        self.time.pass_time(3_000)
        member_id = (await joined).member_id
        assert (await self.sync(member_id, 1)).assignment == b"all"
        return member_id
