"""A group coordinator on virtual time with a log in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar
from uuid import UUID, uuid4

from tests.support.configs import (
    consumer_group_config,
    group_config,
    share_group_config,
    streams_group_config,
)
from tests.support.metadata.images import image_with_brokers
from tidelog.broker.coordinators.groups.classic.member import Client
from tidelog.broker.coordinators.groups.classic.pending import Pending
from tidelog.broker.coordinators.groups.config import GroupConfig
from tidelog.broker.coordinators.groups.consumer.config import ConsumerGroupConfig
from tidelog.broker.coordinators.groups.coordinator import GroupCoordinator
from tidelog.broker.coordinators.groups.members.computations import Computation
from tidelog.broker.coordinators.groups.outcome import Writes
from tidelog.broker.coordinators.groups.records.coordinator_records import decode_record, encode_record
from tidelog.broker.coordinators.groups.services.prepared_commits import prepare_commit
from tidelog.broker.coordinators.groups.services.target_computations import ComputingCoordinator
from tidelog.broker.coordinators.groups.share.config import ShareGroupConfig
from tidelog.broker.coordinators.groups.streams.config import StreamsGroupConfig
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import Outcome
from tidelog.cluster.delta import MetadataDelta
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.codec import encode
from tidelog.protocol.consumer_protocol import ConsumerProtocolSubscription
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.heartbeat import HeartbeatRequest
from tidelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.protocol.messages.offset_fetch import OffsetFetchRequestTopics
from tidelog.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tidelog.protocol.metadata_records.partition_record import PartitionRecord
from tidelog.protocol.metadata_records.topic_record import TopicRecord
from tidelog.protocol.schema import ZERO_UUID, MetadataRecord
from tidelog.protocol.steps import run_steps

R = TypeVar("R")

START_WALL_MS = 1_700_000_000_000
MONOTONIC_BEHIND_MS = 1_699_999_000_000


def hash_of(name: str) -> int:
    """Return a number for the id of a topic."""
    return int.from_bytes(name.encode())


def random_suffix() -> str:
    """Return the random part of a member id."""
    return str(uuid4())


def subscription(*topics: str) -> bytes:
    """Return the subscription metadata of a consumer of `topics`."""
    return b"\0\0" + encode(ConsumerProtocolSubscription(topics=topics), 0)


@dataclass
class PendingReply:
    """A response that may be available already."""

    pending: Pending[JoinGroupResponse] | Pending[SyncGroupResponse]

    @property
    def is_waiting(self) -> bool:
        return self.pending.reply is None

    @property
    def error(self) -> ErrorCode:
        return ErrorCode(self.reply.error_code)

    @property
    def reply(self) -> Any:
        assert self.pending.reply is not None, "no reply yet"
        return self.pending.reply


@dataclass
class GroupCoordinatorFixture:
    """A coordinator whose records are appended to a list and committed at once.

    Appends fail with `append_error` if it is set. With `holds_commits`, appended records are replayed, but
    not committed until `commit_all`. With `holds_computations`, target assignments that are computed in steps
    are not computed until `complete_computations`.
    """

    config: GroupConfig = field(default_factory=group_config)
    log: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    now_ms: int = START_WALL_MS
    append_error: ErrorCode | None = None
    holds_commits: bool = False
    suffixes: Iterator[int] = field(default_factory=lambda: count(1))
    consumer_config: ConsumerGroupConfig = field(default_factory=consumer_group_config)
    share_config: ShareGroupConfig = field(default_factory=share_group_config)
    streams_config: StreamsGroupConfig = field(default_factory=streams_group_config)
    image: MetadataImage = field(default_factory=image_with_brokers)
    holds_computations: bool = False
    computations: list[tuple[ComputingCoordinator[Any, Any], Computation[Any, Any]]] = field(
        default_factory=list
    )

    def __post_init__(self) -> None:
        self.coordinator = GroupCoordinator(
            self.config,
            lambda: self.consumer_config,
            lambda: self.image,
            lambda: str(next(self.suffixes)),
            lambda: self.share_config,
            lambda: self.streams_config,
        )
        self.held: list[tuple[int, Writes]] = []
        if not self.log:
            assert not self.coordinator.finish_loading(self.now)

    @property
    def now(self) -> Moment:
        return Moment(self.now_ms, self.now_ms - MONOTONIC_BEHIND_MS)

    # The log

    def perform(self, writes: Writes) -> ErrorCode:
        """Append, replay and commit the records of an outcome; return the result of the append."""
        if not writes.records:
            assert writes.follow_up is None
            return ErrorCode.NONE
        if self.append_error is not None:
            error = self.append_error
            self._settle(writes, error)
            return error
        encoded = None if writes.encoded is None else writes.encoded.records
        for number, record in enumerate(writes.records):
            key, value = encode_record(record)
            assert decode_record(key, value) == record
            assert encoded is None or encoded[number] == (key, value)
            self.coordinator.replay(record, len(self.log))
            self.log.append((key, value))
        self.held.append((len(self.log), writes))
        if not self.holds_commits:
            self.commit_all()
        return ErrorCode.NONE

    def start_computations(self) -> None:
        """Take the targets that the last command lets its caller compute; compute them unless held."""
        coordinator = self.coordinator
        types: tuple[ComputingCoordinator[Any, Any], ...] = (
            coordinator.consumers,
            coordinator.shares,
            coordinator.streams,
        )
        for groups in types:
            self.computations += [(groups, each) for each in groups.take_computations()]
        if not self.holds_computations:
            self.complete_computations()

    def complete_computations(self) -> None:
        """Compute and write the targets that commands have requested."""
        while self.computations:
            groups, computation = self.computations.pop(0)
            computed = run_steps(computation.steps)
            self.perform(groups.on_computed(computation, computed, self.now))

    def commit_all(self) -> None:
        """Commit appended records."""
        while self.held:
            next_offset, writes = self.held.pop(0)
            self.coordinator.advance(next_offset)
            self._settle(writes, ErrorCode.NONE)

    def _settle(self, writes: Writes, error: ErrorCode) -> None:
        if writes.follow_up is not None:
            self.perform(writes.follow_up(error, self.now))

    def finish(self, outcome: Outcome[R]) -> R:
        """Return the response of an outcome whose records are written; raise the error of the append."""
        error = self.perform(outcome.writes)
        self.start_computations()
        if error is not ErrorCode.NONE:
            raise KafkaError(error)
        return outcome.reply

    def reload(self, config: GroupConfig | None = None) -> GroupCoordinatorFixture:
        """Return another coordinator that loaded this one's log at the same time."""
        other = GroupCoordinatorFixture(
            config or self.config,
            list(self.log),
            self.now_ms,
            suffixes=self.suffixes,
            consumer_config=self.consumer_config,
            share_config=self.share_config,
            streams_config=self.streams_config,
            image=self.image,
        )
        for offset, (key, value) in enumerate(self.log):
            record = decode_record(key, value)
            if record is not None:
                other.coordinator.replay(record, offset)
        other.coordinator.advance(len(self.log))
        for writes in other.coordinator.finish_loading(other.now):
            other.perform(writes)
        return other

    # Time

    def pass_time(self, duration_ms: int) -> None:
        """Advance the time, and process each deadline when it expires."""
        end_ms = self.now_ms + duration_ms
        while True:
            deadline_ms = self.coordinator.next_deadline_ms()
            if deadline_ms is None or deadline_ms + MONOTONIC_BEHIND_MS > end_ms:
                break
            self.now_ms = max(self.now_ms, deadline_ms + MONOTONIC_BEHIND_MS)
            for writes in self.coordinator.tick(self.now):
                self.perform(writes)
        self.now_ms = end_ms

    # Topics

    def topic_id(self, name: str) -> UUID:
        """Return the id of a topic; the zero id if there is none."""
        topic = self.image.topics_by_name.get(name)
        return ZERO_UUID if topic is None else topic.id

    def change_topics(self, records: Iterable[MetadataRecord]) -> None:
        """Apply records of the metadata log, and let the coordinator know which topics changed."""
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        old, self.image = self.image, delta.image(self.image.offset + 1, 1)
        names = {*delta.changed_topics, *(topic.name for topic in delta.deleted_topics)}
        created = any(self.topic_id(name) not in old.topics_by_id for name in delta.changed_topics)
        self.coordinator.consumers.on_topics_changed(names, self.image.offset if created else None)
        self.coordinator.shares.on_topics_changed(names)
        self.coordinator.streams.on_topics_changed(names)

    def add_partitions(self, name: str, count: int) -> None:
        """Create a topic, or add partitions to it."""
        topic = self.image.topics_by_name.get(name)
        topic_id = UUID(int=hash_of(name)) if topic is None else topic.id
        first = 0 if topic is None else len(topic.partitions)
        records: list[MetadataRecord] = [] if topic else [TopicRecord(name=name, topic_id=topic_id)]
        records += [
            PartitionRecord(partition_id=index, topic_id=topic_id, replicas=(1,), isr=(1,), leader=1)
            for index in range(first, first + count)
        ]
        self.change_topics(records)

    # Requests

    def join(
        self,
        group_id: str = "g",
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: Sequence[tuple[str, bytes]] = (("range", b""),),
        protocol_type: str = "consumer",
        version: int = 9,
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        client: str = "c",
    ) -> PendingReply:
        """Send JoinGroup."""
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=tuple(JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols),
        )
        outcome = self.coordinator.membership.join(Client(client, "/127.0.0.1"), request, version, self.now)
        self.perform(outcome.writes)
        self.start_computations()
        return PendingReply(outcome.reply)

    def join_as_new_member(self, group_id: str = "g", **options: object) -> tuple[str, PendingReply]:
        """Send both joins of a dynamic member: the first without an id, the second with it."""
        first = self.join(group_id, **options)  # type: ignore[arg-type]
        assert first.error is ErrorCode.MEMBER_ID_REQUIRED
        member_id = first.reply.member_id
        return member_id, self.join(group_id, member_id, **options)  # type: ignore[arg-type]

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group_id: str = "g",
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> PendingReply:
        """Send SyncGroup."""
        request = SyncGroupRequest(
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=tuple(
                SyncGroupRequestAssignment(member_id=assigned_id, assignment=assignment)
                for assigned_id, assignment in (assignments or {}).items()
            ),
        )
        outcome = self.coordinator.membership.sync(request, self.now)
        self.perform(outcome.writes)
        return PendingReply(outcome.reply)

    def heartbeat(
        self, member_id: str, generation: int, *, group_id: str = "g", instance: str | None = None
    ) -> ErrorCode:
        """Send Heartbeat."""
        request = HeartbeatRequest(
            group_id=group_id, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        return ErrorCode(self.coordinator.membership.heartbeat(request, self.now).error_code)

    def leave(
        self, *members: tuple[str, str | None], group_id: str = "g", version: int = 5
    ) -> LeaveGroupResponse:
        """Send LeaveGroup."""
        request = LeaveGroupRequest(
            group_id=group_id,
            member_id=members[0][0] if version < 3 else "",
            members=()
            if version < 3
            else tuple(
                MemberIdentity(member_id=leaving_id, group_instance_id=instance)
                for leaving_id, instance in members
            ),
        )
        return self.finish(self.coordinator.membership.leave(request, version, self.now))

    def commit(
        self,
        offsets: dict[tuple[str, int], int],
        *,
        group_id: str = "g",
        member_id: str = "",
        generation: int = -1,
        instance: str | None = None,
        metadata: str = "",
        retention_ms: int = -1,
        version: int = 9,
    ) -> list[ErrorCode]:
        """Send OffsetCommit; return the error of each partition."""
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=tuple(
                OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=self.topic_id(topic),
                    partitions=(
                        OffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset, committed_metadata=metadata
                        ),
                    ),
                )
                for (topic, partition), offset in offsets.items()
            ),
        )
        try:
            response = self.finish(self.commit_outcome(request, version))
        except KafkaError as error:
            return [error.code] * len(offsets)
        return [ErrorCode(p.error_code) for topic in response.topics for p in topic.partitions]

    def commit_outcome(self, request: OffsetCommitRequest, version: int) -> Outcome[OffsetCommitResponse]:
        """Return the outcome of a commit. Raise KafkaError if the sender may not commit."""
        metadata_bytes_max = self.config.offset_metadata_max_bytes
        prepared = run_steps(prepare_commit(request, request.topics, self.now, metadata_bytes_max))
        writes = self.coordinator.offsets.commit(request, version, self.now, prepared.writes).writes
        return Outcome(prepared.response, writes)

    def offsets(self, group_id: str = "g") -> dict[tuple[str, int], int]:
        """Return all committed offsets of a group."""
        return {
            (topic.name, partition.partition_index): partition.committed_offset
            for topic in run_steps(self.coordinator.offset_fetch.fetch_all(group_id, False))
            for partition in topic.partitions
        }

    def offset(
        self, topic: str, partition: int, *, group_id: str = "g", require_stable: bool = False
    ) -> tuple[int, ErrorCode]:
        """Return one committed offset and its error."""
        topics = (OffsetFetchRequestTopics(name=topic, partition_indexes=(partition,)),)
        (response,) = run_steps(self.coordinator.offset_fetch.fetch(group_id, topics, require_stable))
        return response.partitions[0].committed_offset, ErrorCode(response.partitions[0].error_code)

    # Administrative requests

    def state(self, group_id: str = "g") -> str:
        """Return the state as in DescribeGroups."""
        return self.coordinator.administration.describe_group(group_id, 6).group_state

    def expire(self) -> int:
        """Expire offsets; return the number of written records."""
        count = 0
        for writes in self.coordinator.expiration.expire(self.now):
            self.perform(writes)
            count += len(writes.records)
        return count

    # Complete rebalances

    def stable_group(self, size: int = 2, **options: object) -> list[str]:
        """Return a stable group `g` in generation 1; the first member leads, assignments are member ids."""
        joins = [self.join_as_new_member(**options) for _ in range(size)]  # type: ignore[arg-type]
        self.pass_time(self.config.group_initial_rebalance_delay_ms * (2 if size > 1 else 1))
        members = [member_id for member_id, _ in joins]
        assert all(join.error is ErrorCode.NONE for _, join in joins)
        self.sync_all(members, 1)
        return members

    def sync_all(self, members: list[str], generation: int) -> None:
        """Sync all members; the first one is the leader with an assignment for each."""
        assignments = {member: member.encode() for member in members}
        syncs = [self.sync(member, generation) for member in members[1:]]
        syncs.append(self.sync(members[0], generation, assignments))
        assert all(sync.error is ErrorCode.NONE for sync in syncs)
        assert self.state() == "Stable"
