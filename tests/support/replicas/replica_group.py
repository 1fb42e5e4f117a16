"""Several brokers of one cluster in one process: real partitions, fetchers and controller commands.

There is no network and no quorum. Every reachable broker receives metadata at once; an isolated broker
receives it when it is reconnected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast
from uuid import UUID

from tests.support.clocks.manual_clock import NOW_MS, ManualClock
from tests.support.configs import controller_settings
from tests.support.logs.partition_logs import batch
from tests.support.replicas.replica_manager import Replicas
from tests.support.replicas.replica_pair import LeaderConnection, bytes_of
from tidelog.base.clock import SystemClock
from tidelog.broker.partitions.partition import ACKS_ALL, Partition
from tidelog.broker.replication.fetcher import FetcherPorts
from tidelog.broker.replication.fetcher_manager import FetcherManager
from tidelog.broker.replication.isr_updates import IsrUpdates
from tidelog.clients.transport.connection import BrokerConnection
from tidelog.cluster.controller.alter_partition import alter_partition
from tidelog.cluster.controller.broker_changes import fence_records, unfence_records
from tidelog.cluster.delta import MetadataDelta
from tidelog.cluster.image import PartitionImage
from tidelog.cluster.replication.follower_fetcher import FollowerFetcher, FollowerSettings
from tidelog.cluster.replication.throttle import ReplicationQuota
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, TopicPartition
from tidelog.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from tidelog.protocol.metadata_records.partition_record import PartitionRecord
from tidelog.protocol.metadata_records.topic_record import TopicRecord
from tidelog.protocol.schema import MetadataRecord
from tidelog.protocol.steps import run_steps

TOPIC_ID = UUID(int=4_711)
THE_PARTITION = TopicPartition("t", 0)
_SETTINGS = controller_settings(node_id=1)


class RunningClock(ManualClock):
    """A running clock that a test can advance."""

    def __init__(self) -> None:
        super().__init__()
        self._started_ms = SystemClock().monotonic_ms()

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + SystemClock().monotonic_ms() - self._started_ms


class Member:
    """One broker: its partitions, its fetchers, its connection to the controller."""

    def __init__(self, group: ReplicaGroup, node_id: BrokerId) -> None:
        self.node_id = node_id
        self.is_cut_off = False
        self.replicas = Replicas(node_id=node_id)
        self.replicas.clock = self.replicas.leadership.clock = RunningClock()
        self.connections: dict[BrokerId, LeaderConnection] = {}
        self._group = group
        self.isr_updates = IsrUpdates(self, node_id, lambda: 100 + node_id, self.replicas.clock)
        self.replicas.leadership.isr_updates = self.isr_updates
        quota = ReplicationQuota(window_ms=1_000, window_count=11)
        settings = FollowerSettings(
            replica_id=node_id,
            partition_max_bytes=1 << 20,
            max_bytes=10 << 20,
            min_bytes=1,
            max_wait_ms=0,
            backoff_ms=1,
        )
        ports = FetcherPorts(
            connect=self._connect,
            broker_epoch=lambda: 100 + node_id,
            on_high_watermark_advanced=self.replicas.leadership.complete_waiting_requests,
            clock=self.replicas.clock,
            quota=quota,
            backoff_ms=1,
        )
        self.fetchers = FetcherManager(node_id, 1, ports, lambda: FollowerFetcher(settings, throttle=quota))
        self.replicas.manager.add_listener(self.fetchers)

    @property
    def partition(self) -> Partition:
        """Return the replica of the only partition."""
        return self.replicas.manager.partition(THE_PARTITION)

    async def request(self, message: Any, response: type[Any], *, deadline: int) -> Any:
        """Send a request to the controller, unless the broker is isolated."""
        if self.is_cut_off:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "cut off")
        return self._group.alter_partition(message)

    async def _connect(self, leader_id: BrokerId) -> BrokerConnection:
        leader = self._group.members[leader_id]
        if self.is_cut_off or leader.is_cut_off:
            raise OSError("no route to host")
        self.connections[leader_id] = LeaderConnection(leader.replicas)
        return cast(BrokerConnection, self.connections[leader_id])


class ReplicaGroup:
    """Brokers 1 to `brokers`; topic `t` has one partition on the first three, with leader 1 in epoch 0."""

    def __init__(self, brokers: int = 3, *, configs: Mapping[str, str] | None = None) -> None:
        self._history: list[tuple[MetadataRecord, ...]] = []
        self._delivered_counts: dict[BrokerId, int] = {}
        self.members = {node_id: Member(self, node_id) for node_id in range(1, brokers + 1)}
        self.image = self.members[1].replicas.image
        placed = PartitionRecord(
            partition_id=0,
            topic_id=TOPIC_ID,
            replicas=(1, 2, 3),
            isr=(1, 2, 3),
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
            directories=(UUID(int=9_001), UUID(int=9_002), UUID(int=9_003)),
        )
        for member in self.members.values():
            member.replicas.register(*self.members)
        self.image = self.members[1].replicas.image
        self.publish(
            *(
                ConfigRecord(resource_type=2, resource_name="t", name=name, value=value)
                for name, value in (configs or {}).items()
            ),
            TopicRecord(name="t", topic_id=TOPIC_ID),
            placed,
        )
        for member in self.members.values():
            member.fetchers.start(member.replicas.manager.partitions.values())

    async def close(self) -> None:
        """End all tasks."""
        for member in self.members.values():
            await member.fetchers.close()
            await member.isr_updates.close()

    # -- the controller

    @property
    def partition_image(self) -> PartitionImage:
        """Return the partition as in the controller's image."""
        return self.image.topics_by_id[TOPIC_ID].partitions[0]

    def publish(self, *records: MetadataRecord) -> None:
        """Deliver a step of the metadata log to all reachable brokers."""
        if not records:
            return
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        self.image = delta.image(self.image.offset + len(records), 1)
        self._history.append(records)
        for member in self.members.values():
            self._deliver_metadata(member)

    def _deliver_metadata(self, member: Member) -> None:
        while not member.is_cut_off and self._delivered_counts.get(member.node_id, 0) < len(self._history):
            delivered_count = self._delivered_counts.get(member.node_id, 0)
            self._delivered_counts[member.node_id] = delivered_count + 1
            member.replicas.replay(*self._history[delivered_count])

    def alter_partition(self, message: AlterPartitionRequest) -> AlterPartitionResponse:
        """Respond to AlterPartition."""
        result = alter_partition(self.image, _SETTINGS, message)
        self.publish(*result.records)
        return result.reply

    def fence(self, node_id: BrokerId) -> None:
        """Expire the session of a broker."""
        self.publish(*run_steps(fence_records(self.image, _SETTINGS, self.image.brokers[node_id])))

    def isolate(self, node_id: BrokerId) -> None:
        """Isolate a broker from metadata, fetches and requests in both directions."""
        self.members[node_id].is_cut_off = True
        for member in self.members.values():
            for leader_id, connection in member.connections.items():
                if node_id in (member.node_id, leader_id):
                    connection.break_off()

    def reconnect(self, node_id: BrokerId) -> None:
        """Reconnect a broker: it applies missed metadata and is unfenced."""
        member = self.members[node_id]
        member.is_cut_off = False
        self._deliver_metadata(member)
        if self.image.brokers[node_id].fenced:
            self.publish(*run_steps(unfence_records(self.image, _SETTINGS, self.image.brokers[node_id])))

    # -- clients

    @property
    def leader(self) -> Partition:
        """Return the replica of the leader."""
        return self.members[self.partition_image.leader].partition

    def produce(
        self, *values: str, at: BrokerId | None = None, acks: int = ACKS_ALL
    ) -> tuple[Partition, int]:
        """Append at the leader or at `at`, perhaps a former leader; return the replica and the end offset."""
        partition = self.leader if at is None else self.members[at].partition
        info = partition.append(batch(list(values)), acks, NOW_MS)
        return partition, info.last_offset + 1

    def pass_ms(self, milliseconds: int) -> None:
        """Advance the time on all brokers, and let leaders check their ISR."""
        for member in self.members.values():
            member.replicas.clock.now_ms += milliseconds
            member.replicas.manager.check_isrs()

    def are_equal(self, *nodes: BrokerId) -> bool:
        """Return whether these replicas have equal bytes and epochs, all committed."""
        logs = [self.members[node].partition.log for node in nodes or self.partition_image.replicas]
        first = logs[0]
        return all(
            bytes_of(log) == bytes_of(first)
            and log.leader_epochs.entries == first.leader_epochs.entries
            and log.high_watermark == first.log_end_offset
            for log in logs
        )

    def move_leader(self, node_id: BrokerId) -> None:
        """Elect this replica as leader."""
        self.publish(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=node_id))


def commit_outcome(produced: tuple[Partition, int]) -> ErrorCode | None:
    """Return the result of an append with acks=all; None if it waits."""
    partition, end_offset = produced
    return partition.commit_outcome(end_offset)
