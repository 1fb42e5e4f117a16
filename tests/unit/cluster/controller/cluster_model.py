"""A small cluster around the controller's commands: processes, the records of their replicas, and time.

Every command goes through `apply`, which replays its records and checks the invariants. Replicas
have lists of numbered records. A record is *committed* when every replica of the maximal in-sync set
has it and the set has at least min.insync.replicas members. An elected live leader must have all
committed records unless it is marked as recovering; otherwise `LostRecords` is raised.

A killed process may lose the end of its records, like a machine that loses power.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

from tests.support.configs import controller_settings
from tests.support.metadata.images import CLUSTER_ID, image_after_result
from tests.unit.cluster.controller.invariants import check_image, check_step
from tidelog.cluster.controller.alter_partition import alter_partition
from tidelog.cluster.controller.broker_heartbeat import HeartbeatReply, broker_heartbeat, fence_stale_broker
from tidelog.cluster.controller.brokers import register_broker, supported_features
from tidelog.cluster.controller.heartbeats import BrokerHeartbeats
from tidelog.cluster.controller.result import ControllerResult
from tidelog.cluster.image import LeaderRecoveryState, MetadataImage, PartitionImage, TopicImage
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from tidelog.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from tidelog.protocol.messages.broker_registration import BrokerRegistrationRequest, Listener
from tidelog.protocol.steps import run_steps

R = TypeVar("R")
Place = tuple[UUID, int]

SESSION_MS = 9_000
SETTINGS = controller_settings(node_id=100)


class LostRecords(AssertionError):
    """A leader elected as up to date lacks committed records."""


@dataclass
class Process:
    """A broker process: its broker epoch, and the previous epoch if it stopped cleanly."""

    broker: int
    incarnation: int = 0
    epoch: int = -1
    is_up: bool = False
    clean_epoch: int = -1
    is_shutting_down: bool = False


@dataclass
class Alteration:
    """An AlterPartition request in flight, with the members of its proposed in-sync set."""

    place: Place
    request: AlterPartitionRequest
    members: tuple[int, ...]


@dataclass
class Records:
    """The records on each replica of one partition."""

    logs: dict[int, list[int]] = field(default_factory=dict)
    committed: list[int] = field(default_factory=list)
    leader_epoch: int = -1
    in_flight: Alteration | None = None


class ClusterModel:
    """The cluster.

    `sends_member_epochs` and `detects_unclean_shutdown` disable safeguards, to prove that they are needed.
    """

    def __init__(
        self,
        image: MetadataImage,
        chance: random.Random,
        *,
        forgets: bool = True,
        sends_member_epochs: bool = True,
        detects_unclean_shutdown: bool = True,
    ) -> None:
        self.image = image
        self.chance = chance
        self.now_ms = 0
        self.heartbeats = BrokerHeartbeats(SESSION_MS)
        self.processes: dict[int, Process] = {}
        self.records: dict[Place, Records] = {}
        self._forgets = forgets
        self._sends_member_epochs = sends_member_epochs
        self._detects_unclean_shutdown = detects_unclean_shutdown
        self._next_record = 0
        self._seen_epochs: dict[tuple[Place, int], int] = {}

    # Commands

    def apply(self, command: Callable[[MetadataImage], ControllerResult[R]]) -> R | None:
        """Return the command's reply after its records are replayed and checked; None if it is refused."""
        try:
            result = command(self.image)
        except KafkaError:
            return None
        before, self.image = self.image, image_after_result(self.image, result)
        check_image(self.image)
        check_step(before, self.image)
        self._follow(before)
        return result.reply

    def _follow(self, before: MetadataImage) -> None:
        for topic in self.image.topics_by_id.values():
            for index, partition in topic.partitions.items():
                self._follow_partition((topic.id, index), partition)
        for topic_id in before.topics_by_id.keys() - self.image.topics_by_id.keys():
            self.records = {place: each for place, each in self.records.items() if place[0] != topic_id}

    def _follow_partition(self, place: Place, partition: PartitionImage) -> None:
        records = self.records.setdefault(place, Records())
        records.logs = {replica: records.logs.get(replica, []) for replica in partition.replicas}
        if partition.leader not in self.live_brokers() or partition.leader_epoch == records.leader_epoch:
            return  # A leader without a process does not act on its election.
        records.leader_epoch = partition.leader_epoch
        log = records.logs[partition.leader]
        if partition.leader_recovery_state == LeaderRecoveryState.RECOVERING:
            records.committed = records.committed[: _common(log, records.committed)]
        elif log[: len(records.committed)] != records.committed:
            raise LostRecords(f"{place}: {log} is not {records.committed}: {partition}")

    # Brokers

    def start(self, broker: int) -> None:
        """Register a new process."""
        process = self.processes.setdefault(broker, Process(broker))
        incarnation = process.incarnation + 1
        existing = self.image.brokers.get(broker)
        has_session = existing is not None and self.heartbeats.has_session(
            broker, existing.epoch, self.now_ms
        )
        previous = (
            process.clean_epoch if self._detects_unclean_shutdown or existing is None else existing.epoch
        )
        request = BrokerRegistrationRequest(
            broker_id=broker,
            cluster_id=CLUSTER_ID,
            incarnation_id=UUID(int=broker * 100_000 + incarnation + 1000),
            listeners=(Listener(name="PLAINTEXT", host="h", port=1),),
            features=supported_features(),
            log_dirs=tuple(UUID(int=10_000 + broker * 10 + each) for each in range(2)),
            previous_broker_epoch=previous,
        )
        epoch = self.apply(
            lambda image: run_steps(register_broker(image, SETTINGS, request, has_session=has_session))
        )
        if epoch is not None:
            self.processes[broker] = Process(broker, incarnation, epoch, is_up=True)
            self.heartbeats.record_heartbeat(self.image, broker, epoch, self.now_ms)

    def heartbeat(
        self, broker: int, *, lag: int = 0, want_shut_down: bool = False, **fields: Any
    ) -> HeartbeatReply | None:
        """Send a heartbeat of a process whose metadata is `lag` records behind."""
        process = self.processes[broker]
        process.is_shutting_down |= want_shut_down
        request = BrokerHeartbeatRequest(
            broker_id=broker,
            broker_epoch=process.epoch,
            current_metadata_offset=self.image.offset - lag,
            want_shut_down=process.is_shutting_down,
            **fields,
        )
        self.heartbeats.record_heartbeat(self.image, broker, process.epoch, self.now_ms)
        reply = self.apply(
            lambda image: run_steps(broker_heartbeat(image, SETTINGS, self.heartbeats, request))
        )
        if reply is not None:
            self.heartbeats.apply_reply(
                broker,
                process.epoch,
                metadata_offset=request.current_metadata_offset,
                is_fenced=reply.is_fenced,
                should_shut_down=reply.should_shut_down,
                shutdown_offset=reply.shutdown_offset,
            )
            if reply.should_shut_down:
                process.is_up, process.clean_epoch = False, process.epoch
        return reply

    def kill(self, broker: int) -> None:
        """Kill the process; it may lose the end of the records that it had written."""
        self.processes[broker].is_up = False
        if self._forgets and self.chance.random() < 0.6:
            for records in self.records.values():
                log = records.logs.get(broker)
                if log:
                    del log[self.chance.randrange(len(log) + 1) :]

    def pass_time(self, ms: int) -> None:
        """Advance the time and fence brokers with expired sessions."""
        self.now_ms += ms
        while self.apply(
            lambda image: run_steps(fence_stale_broker(image, SETTINGS, self.heartbeats, self.now_ms))
        ):
            pass

    def live_brokers(self) -> list[int]:
        """Return the brokers whose process runs under its latest registration."""
        return [
            broker
            for broker, process in sorted(self.processes.items())
            if process.is_up
            and broker in self.image.brokers
            and self.image.brokers[broker].epoch == process.epoch
        ]

    # Partitions

    def places(self) -> list[tuple[TopicImage, int]]:
        """Return every partition."""
        return [
            (topic, index)
            for _, topic in sorted(self.image.topics_by_name.items())
            for index in sorted(topic.partitions)
        ]

    def produce(self, topic: TopicImage, index: int, min_insync: int, lagging: Iterable[int] = ()) -> None:
        """Append a record at the leader, replicate it, and commit it if possible."""
        place, partition = (topic.id, index), topic.partitions[index]
        alive = self.live_brokers()
        if partition.leader not in alive:
            return
        records = self.records[place]
        log = records.logs[partition.leader]
        log.append(self._next_record)
        self._next_record += 1
        slow = set(lagging) - {partition.leader}
        for replica in partition.replicas:
            if replica in alive and replica not in slow:
                records.logs[replica] = log if replica == partition.leader else list(log)
                self._seen_epochs[place, replica] = self.processes[replica].epoch
        maximal = set(partition.isr)
        in_flight = records.in_flight
        if in_flight is not None and self._is_current(in_flight, partition):
            maximal |= set(in_flight.members)
        needed = min(min_insync, len(partition.replicas))
        if len(partition.isr) >= needed and all(records.logs[member] == log for member in maximal):
            records.committed = list(log)

    def propose_in_sync_set(self, topic: TopicImage, index: int) -> None:
        """Send the set of replicas that have all records; the request may be delivered late or never."""
        place, partition = (topic.id, index), topic.partitions[index]
        records, leader = self.records[place], partition.leader
        if leader not in self.live_brokers():
            return
        log = records.logs[leader]
        recovered = int(LeaderRecoveryState.RECOVERED)
        members = tuple(
            replica
            for replica in partition.replicas
            if replica == leader or (records.logs[replica] == log and (place, replica) in self._seen_epochs)
        )
        if partition.leader_recovery_state == LeaderRecoveryState.RECOVERING:
            members = (leader,)
        proposal = RequestPartitionData(
            partition_index=index,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr_with_epochs=tuple(self._member(place, leader, member) for member in members),
            leader_recovery_state=recovered,
        )
        request = AlterPartitionRequest(
            broker_id=leader,
            broker_epoch=self.processes[leader].epoch,
            topics=(RequestTopicData(topic_id=topic.id, partitions=(proposal,)),),
        )
        records.in_flight = Alteration(place, request, members)

    def deliver(self, place: Place) -> AlterPartitionResponse | None:
        """Deliver an AlterPartition request, possibly late."""
        alteration = self.records[place].in_flight
        if alteration is None:
            return None
        self.records[place].in_flight = None
        return self.apply(lambda image: alter_partition(image, SETTINGS, alteration.request))

    def _member(self, place: Place, leader: int, member: int) -> BrokerState:
        if not self._sends_member_epochs:
            return BrokerState(broker_id=member)
        epoch = self.processes[leader].epoch if member == leader else self._seen_epochs[place, member]
        return BrokerState(broker_id=member, broker_epoch=epoch)

    def _is_current(self, alteration: Alteration, partition: PartitionImage) -> bool:
        (topic,) = alteration.request.topics
        return topic.partitions[0].leader_epoch == partition.leader_epoch


def _common(log: list[int], committed: list[int]) -> int:
    for position, (left, right) in enumerate(zip(log, committed, strict=False)):
        if left != right:
            return position
    return min(len(log), len(committed))
