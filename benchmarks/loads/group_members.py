"""Members of a classic, a consumer (KIP-848) and a streams group (KIP-1071), which send what clients send."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol
from uuid import UUID, uuid4

from tidelog.clients.transport.connection import BrokerConnection
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)
from tidelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from tidelog.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.protocol.messages.streams_group_heartbeat import (
    RequestTaskIds,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    Topology,
)
from tidelog.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

SESSION_MS: Final = 45_000
REBALANCE_MS: Final = 60_000
SUBSCRIPTION_BYTES: Final = 60
"""The size of the subscription of a consumer with a topic and an owned partition."""
COMMIT_VERSION: Final = 9
"""The last one with topic names."""
LEAVE_EPOCH: Final = -1
BEGINNING: Final = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR})


class ClassicMember:
    """A member that joins again when a heartbeat requires it; the leader assigns partitions in order."""

    def __init__(self, connection: BrokerConnection, group_id: str, topic: str, partitions: int) -> None:
        self._connection = connection
        self._group_id = group_id
        self._topic = topic
        self._partition_count = partitions
        self._id = ""
        self.epoch = 0
        self.partitions: Sequence[int] = ()

    async def join(self) -> None:
        """Take part in rebalances until one ends with an assignment."""
        while True:
            response = await self._connection.request(self._join_request(), JoinGroupResponse)
            if response.error_code in (ErrorCode.MEMBER_ID_REQUIRED, *BEGINNING):
                self._id = response.member_id
                continue
            check(response.error_code)
            members = [each.member_id for each in response.members]
            if await self._sync(response, members):
                return

    async def advance(self) -> bool:
        """Send a heartbeat, and join again if there is a rebalance; return whether there was one."""
        request = HeartbeatRequest(group_id=self._group_id, generation_id=self.epoch, member_id=self._id)
        response = await self._connection.request(request, HeartbeatResponse)
        if response.error_code != ErrorCode.REBALANCE_IN_PROGRESS:
            check(response.error_code)
            return False
        await self.join()
        return True

    async def commit(self) -> None:
        """Commit an offset of each partition."""
        await commit(self._connection, self._group_id, self._id, self.epoch, self._topic, self.partitions)

    async def leave(self) -> None:
        """Leave the group."""
        request = LeaveGroupRequest(group_id=self._group_id, members=(MemberIdentity(member_id=self._id),))
        check((await self._connection.request(request, LeaveGroupResponse)).error_code)
        self._id, self.epoch, self.partitions = "", 0, ()

    def _join_request(self) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self._id,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=bytes(SUBSCRIPTION_BYTES)),),
        )

    async def _sync(self, joined: JoinGroupResponse, members: Sequence[str]) -> bool:
        """Return whether the member has its assignment; False if another rebalance has begun."""
        assignments = tuple(
            SyncGroupRequestAssignment(
                member_id=member_id,
                assignment=b",".join(
                    b"%d" % each for each in range(number, self._partition_count, len(members))
                ),
            )
            for number, member_id in enumerate(sorted(members))
        )
        request = SyncGroupRequest(
            group_id=self._group_id,
            generation_id=joined.generation_id,
            member_id=self._id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )
        response = await self._connection.request(request, SyncGroupResponse)
        if response.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            return False
        check(response.error_code)
        self.epoch = joined.generation_id
        self.partitions = [int(text) for text in response.assignment.split(b",") if text]
        return True


class Heartbeat(NamedTuple):
    """What a member reports in a heartbeat, with every protocol."""

    member_id: str
    epoch: int
    partitions: Sequence[int]
    is_first: bool


class HeartbeatResult(NamedTuple):
    """What the coordinator responds, with every protocol; `partitions` is None if they have not changed."""

    error_code: int
    epoch: int
    partitions: Sequence[int] | None


class Heartbeats(Protocol):
    """Sends heartbeats in the messages of one protocol."""

    async def send(self, heartbeat: Heartbeat) -> HeartbeatResult: ...


class HeartbeatMember:
    """A member whose heartbeats report its partitions, and whose responses assign them."""

    def __init__(
        self, connection: BrokerConnection, group_id: str, topic: str, heartbeats: Heartbeats
    ) -> None:
        self._connection = connection
        self._group_id = group_id
        self._topic = topic
        self._heartbeats = heartbeats
        self._id = str(uuid4())
        self.epoch = 0
        self.partitions: Sequence[int] = ()

    async def join(self) -> None:
        """Send the first heartbeat, until the coordinator is ready."""
        while not await self._heartbeat(is_first=True):
            pass

    async def advance(self) -> bool:
        """Send a heartbeat; return whether the response changed anything, so that the next one is urgent."""
        before = self.epoch, self.partitions
        await self._heartbeat(is_first=False)
        return (self.epoch, self.partitions) != before

    async def commit(self) -> None:
        """Commit an offset of each partition."""
        await commit(self._connection, self._group_id, self._id, self.epoch, self._topic, self.partitions)

    async def leave(self) -> None:
        """Leave the group; the member can join again."""
        self.epoch = LEAVE_EPOCH
        await self._heartbeat(is_first=False)
        self._id, self.epoch, self.partitions = str(uuid4()), 0, ()

    async def _heartbeat(self, *, is_first: bool) -> bool:
        """Return False if the coordinator is not ready yet."""
        heartbeat = Heartbeat(self._id, self.epoch, self.partitions, is_first)
        result = await self._heartbeats.send(heartbeat)
        if result.error_code in BEGINNING:
            return False
        check(result.error_code)
        self.epoch = result.epoch
        if result.partitions is not None:
            self.partitions = result.partitions
        return True


class ConsumerHeartbeats:
    """Heartbeats of a consumer group, which reads one topic (KIP-848)."""

    def __init__(self, connection: BrokerConnection, group_id: str, topic: str) -> None:
        self._connection = connection
        self._group_id = group_id
        self._topic = topic
        self._topic_id = UUID(int=0)

    async def send(self, heartbeat: Heartbeat) -> HeartbeatResult:
        """Send a heartbeat and return the response."""
        owned: tuple[RequestTopicPartitions, ...] = ()
        if heartbeat.partitions:
            owned = (RequestTopicPartitions(topic_id=self._topic_id, partitions=tuple(heartbeat.partitions)),)
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=heartbeat.member_id,
            member_epoch=heartbeat.epoch,
            rebalance_timeout_ms=REBALANCE_MS if heartbeat.is_first else -1,
            subscribed_topic_names=(self._topic,) if heartbeat.is_first else None,
            topic_partitions=owned,
        )
        response = await self._connection.request(request, ConsumerGroupHeartbeatResponse)
        partitions: Sequence[int] | None = None
        if response.assignment is not None:
            assigned = response.assignment.topic_partitions
            if assigned:
                self._topic_id = assigned[0].topic_id
            partitions = [number for topic in assigned for number in topic.partitions]
        return HeartbeatResult(response.error_code, response.member_epoch, partitions)


class StreamsHeartbeats:
    """Heartbeats of a streams group without state, which reads one topic (KIP-1071)."""

    SUBTOPOLOGY: Final = "0"

    def __init__(self, connection: BrokerConnection, group_id: str, topic: str) -> None:
        self._connection = connection
        self._group_id = group_id
        self._topology = Topology(
            subtopologies=(Subtopology(subtopology_id=self.SUBTOPOLOGY, source_topics=(topic,)),)
        )

    async def send(self, heartbeat: Heartbeat) -> HeartbeatResult:
        """Send a heartbeat and return the response."""
        active: tuple[RequestTaskIds, ...] = ()
        if heartbeat.partitions:
            active = (
                RequestTaskIds(subtopology_id=self.SUBTOPOLOGY, partitions=tuple(heartbeat.partitions)),
            )
        is_first = heartbeat.is_first
        request = StreamsGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=heartbeat.member_id,
            member_epoch=heartbeat.epoch,
            rebalance_timeout_ms=REBALANCE_MS if is_first else -1,
            topology=self._topology if is_first else None,
            process_id=f"process-{heartbeat.member_id}" if is_first else None,
            client_tags=() if is_first else None,
            active_tasks=active,
            standby_tasks=(),
            warmup_tasks=(),
        )
        response = await self._connection.request(request, StreamsGroupHeartbeatResponse)
        partitions: Sequence[int] | None = None
        if response.active_tasks is not None:
            partitions = [number for task in response.active_tasks for number in task.partitions]
        return HeartbeatResult(response.error_code, response.member_epoch, partitions)


async def commit(
    connection: BrokerConnection,
    group_id: str,
    member_id: str,
    epoch: int,
    topic: str,
    partitions: Sequence[int],
) -> None:
    """Commit an offset of each partition. Raise KafkaError if one is refused."""
    offsets = tuple(
        OffsetCommitRequestPartition(partition_index=number, committed_offset=1) for number in partitions
    )
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        topics=(OffsetCommitRequestTopic(name=topic, partitions=offsets),),
    )
    response = await connection.request(request, OffsetCommitResponse, highest_version=COMMIT_VERSION)
    for each in response.topics[0].partitions:
        check(each.error_code)


def check(code: int) -> None:
    """Raise KafkaError if `code` is an error."""
    if code:
        raise KafkaError(ErrorCode(code), "the coordinator refused a request")
