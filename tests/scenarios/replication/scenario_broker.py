"""One broker of a replication scenario: a replica manager over a disk in memory, and a follower."""

from __future__ import annotations

from typing import ClassVar, Protocol, cast
from uuid import UUID

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.replicas.replica_manager import Replicas
from tests.support.replicas.replica_pair import LeaderConnection
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.replication.follower_log import apply_action
from tidelog.cluster.image import NO_LEADER
from tidelog.cluster.replication.follower_aux import RemoteTier
from tidelog.cluster.replication.follower_fetcher import FollowerFetcher, FollowerSettings
from tidelog.cluster.replication.follower_state import (
    Action,
    FetchAuxiliary,
    PartitionDelayed,
    PartitionFailed,
)
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.schema import ApiMessage, MetadataRecord
from tidelog.storage.config.topic_configs import log_config_from
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

TOPIC, TOPIC_ID = "t", UUID(int=77)


T0 = TopicPartition(TOPIC, 0)


class ScenarioState(Protocol):
    """The state of a scenario that all of its brokers use."""

    topic_configs: ClassVar[dict[str, str]]
    fetch_version: int
    history: list[list[MetadataRecord]]
    """The changes of metadata, each with its records."""
    now_ms: int


class ScenarioBroker:
    """One broker of a scenario, running or stopped."""

    def __init__(self, letter: str, scenario: ScenarioState) -> None:
        self.letter = letter
        self.id = ord(letter) - ord("A") + 1
        self.epoch = 100 + self.id
        self.fs = CrashFileSystem()
        self.applied_steps = 0
        """The number of changes of metadata that it has applied."""
        self.replicas: Replicas | None = None
        self.core: FollowerFetcher | None = None
        self.request: ApiMessage | None = None
        self.lost_request: ApiMessage | None = None
        self.response: ApiMessage | None = None
        self.error: ErrorCode | None = None
        self.tier: RemoteTier | None = None
        self._scenario = scenario

    @property
    def running_replicas(self) -> Replicas:
        """Return the replicas of the running broker; raise AssertionError if it is stopped."""
        assert self.replicas is not None, f"{self.letter} is down"
        return self.replicas

    @property
    def partition(self) -> Partition:
        """Return the broker's replica of the partition."""
        return self.running_replicas.manager.partition(T0)

    def boot(self) -> None:
        """Start with the content of the disk."""
        config = log_config_from(self._scenario.topic_configs)
        self.replicas = Replicas(self.fs, node_id=self.id, log_config=config)
        self.replicas.leadership.own_epoch = lambda: self.epoch
        self.connection = LeaderConnection(self.replicas, self._scenario.fetch_version)
        self.core = None
        self.applied_steps = 0
        self.request = self.response = None

    def apply_metadata(self, steps: int) -> None:
        """Apply the next `steps` changes of metadata as one."""
        history = self._scenario.history
        records = [
            record for step in history[self.applied_steps : self.applied_steps + steps] for record in step
        ]
        self.applied_steps = min(self.applied_steps + steps, len(history))
        if not records:
            return
        epoch_before = self._fetched_epoch()
        self.running_replicas.replay(*records)
        if T0 not in self.running_replicas.manager.partitions:
            self.core = None
            return
        partition = self.partition
        if partition.leader is not None or partition.leader_id == NO_LEADER:
            self.core = None
        elif self.core is None or partition.leader_epoch != epoch_before:
            self.core = FollowerFetcher(
                FollowerSettings(
                    replica_id=self.id,
                    partition_max_bytes=1,
                    max_bytes=1 << 20,
                    min_bytes=1,
                    max_wait_ms=0,
                    backoff_ms=1,
                ),
                fetch_version=self._scenario.fetch_version,
                tier=self.tier,
            )
            self.request = self.response = None
            self.perform(self.core.add(T0, TOPIC_ID, partition.leader_epoch, partition.log))

    def _fetched_epoch(self) -> int:
        partition = None if self.core is None else self.core.partitions.get(T0)
        return -1 if partition is None else partition.leader_epoch

    def perform(self, actions: list[Action]) -> None:
        """Perform the actions of the state machine."""
        assert self.core is not None
        for action in actions:
            if isinstance(action, FetchAuxiliary):
                self.fetch_auxiliary(action)
            elif not isinstance(action, PartitionDelayed | PartitionFailed):
                try:
                    apply_action(action, cast(PartitionLog, action.partition.log), NOW_MS)
                except KafkaError as error:
                    self.error = error.code
                    self.core.on_action_failed(action, error, self._scenario.now_ms)
                else:
                    self.core.on_action_performed(action)

    def fetch_auxiliary(self, action: FetchAuxiliary) -> None:
        """Raise AssertionError: brokers without a remote tier never do this."""
        raise AssertionError(action)
