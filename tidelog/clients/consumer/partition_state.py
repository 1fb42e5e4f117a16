"""Where a consumer stands in each partition that is assigned to it.

Pure. The states of one partition and the moves between them:

    INITIALIZING      no position yet      -> AWAIT_RESET, AWAIT_VALIDATION, FETCHING
    AWAIT_RESET       offset asked for     -> AWAIT_VALIDATION, FETCHING, AWAIT_RESET
    AWAIT_VALIDATION  epoch asked for      -> FETCHING, AWAIT_RESET, AWAIT_VALIDATION
    FETCHING          records may flow     -> AWAIT_RESET, AWAIT_VALIDATION, FETCHING

Leaving FETCHING, or a seek, drops what was fetched ahead.

Source: KIP-320, SubscriptionState of Kafka's clients.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from enum import Enum, auto

from tidelog.clients.consumer.consumer_types import FetchPosition
from tidelog.clients.consumer.fetched_data import FetchedData
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import NO_LEADER_EPOCH, BrokerId, LeaderEpoch, Offset, TopicPartition

EARLIEST_TIMESTAMP = -2
LATEST_TIMESTAMP = -1


class FetchState(Enum):
    """What a partition waits for before records may flow."""

    INITIALIZING = auto()
    AWAIT_RESET = auto()
    AWAIT_VALIDATION = auto()
    FETCHING = auto()


_MOVES = {
    FetchState.INITIALIZING: {FetchState.AWAIT_RESET, FetchState.AWAIT_VALIDATION, FetchState.FETCHING},
    FetchState.AWAIT_RESET: {FetchState.AWAIT_RESET, FetchState.AWAIT_VALIDATION, FetchState.FETCHING},
    FetchState.AWAIT_VALIDATION: {FetchState.AWAIT_RESET, FetchState.AWAIT_VALIDATION, FetchState.FETCHING},
    FetchState.FETCHING: {FetchState.AWAIT_RESET, FetchState.AWAIT_VALIDATION, FetchState.FETCHING},
}


class PartitionState:
    """One assigned partition.

    `generation` grows whenever fetched or handed-out records lose their meaning (seek, reset).
    `retry_at_ms`: not to be looked up or fetched before.
    """

    __slots__ = (
        "buffered",
        "error",
        "generation",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "paused",
        "position",
        "preferred_replica",
        "preferred_until_ms",
        "reset_timestamp",
        "retry_at_ms",
        "state",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.state = FetchState.INITIALIZING
        self.position: FetchPosition | None = None
        self.reset_timestamp: int | None = None
        self.paused = False
        self.buffered: deque[FetchedData] = deque()
        self.error: KafkaError | None = None
        self.generation = 0
        self.retry_at_ms = 0
        self.high_watermark: Offset | None = None
        self.last_stable_offset: Offset | None = None
        self.log_start_offset: Offset | None = None
        self.preferred_replica: BrokerId | None = None
        self.preferred_until_ms = 0

    def _transition(self, state: FetchState) -> None:
        assert state in _MOVES[self.state], f"{self.topic_partition}: {self.state} -> {state}"
        self.state = state
        self.retry_at_ms = 0

    def seek(self, position: FetchPosition, current_epoch: LeaderEpoch) -> None:
        """Stand at `position`; its epoch is validated first if it is older than the leader's."""
        self._drop_fetched()
        self.position = position
        self.reset_timestamp = None
        needs_validation = position.offset_epoch > NO_LEADER_EPOCH and position.leader_epoch < current_epoch
        self._transition(FetchState.AWAIT_VALIDATION if needs_validation else FetchState.FETCHING)
        if not needs_validation:
            self.position = position._replace(leader_epoch=current_epoch)

    def await_reset(self, timestamp: int) -> None:
        """Look up the offset for `timestamp` (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP) and stand there."""
        self._drop_fetched()
        self.reset_timestamp = timestamp
        self._transition(FetchState.AWAIT_RESET)

    def leader_changed(self, leader_epoch: LeaderEpoch) -> None:
        """Metadata says that another leader epoch has begun: check that our position still holds."""
        position = self.position
        if self.state not in (FetchState.FETCHING, FetchState.AWAIT_VALIDATION) or position is None:
            return
        if leader_epoch <= position.leader_epoch:
            return
        self.preferred_replica = None
        if position.offset_epoch == NO_LEADER_EPOCH:
            self.position = position._replace(leader_epoch=leader_epoch)
            return
        self._drop_fetched()
        self._transition(FetchState.AWAIT_VALIDATION)

    def validated(self, leader_epoch: LeaderEpoch) -> None:
        """The leader of `leader_epoch` has the record before our position."""
        assert self.position is not None
        self.position = self.position._replace(leader_epoch=leader_epoch)
        self._transition(FetchState.FETCHING)

    @property
    def is_fetchable(self) -> bool:
        """Whether records may be handed out and fetched."""
        return self.state is FetchState.FETCHING and not self.paused

    @property
    def next_fetch(self) -> FetchPosition:
        """Where the next fetch begins: behind what is fetched already."""
        assert self.position is not None
        if not self.buffered:
            return self.position
        last = self.buffered[-1]
        return FetchPosition(last.next_offset, last.last_epoch, self.position.leader_epoch)

    def advance(self, next_offset: Offset, offset_epoch: LeaderEpoch) -> None:
        """Records up to `next_offset` were handed out."""
        assert self.position is not None
        self.position = FetchPosition(next_offset, offset_epoch, self.position.leader_epoch)

    def _drop_fetched(self) -> None:
        self.buffered.clear()
        self.error = None
        self.generation += 1


class AssignedPartitions:
    """The partitions that one consumer reads, in the order in which they are served."""

    __slots__ = ("_states",)

    def __init__(self) -> None:
        self._states: dict[TopicPartition, PartitionState] = {}

    def set(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these; those that were read before keep their position."""
        before = self._states
        wanted = dict.fromkeys(topic_partitions)
        self._states = {
            topic_partition: before.get(topic_partition) or PartitionState(topic_partition)
            for topic_partition in wanted
        }

    def get(self, topic_partition: TopicPartition) -> PartitionState | None:
        """The state of a partition, None when it is not assigned."""
        return self._states.get(topic_partition)

    def move_to_end(self, topic_partition: TopicPartition) -> None:
        """Serve this partition after the others."""
        state = self._states.pop(topic_partition, None)
        if state is not None:
            self._states[topic_partition] = state

    def __iter__(self) -> Iterator[PartitionState]:
        return iter(list(self._states.values()))

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._states

    @property
    def topic_partitions(self) -> tuple[TopicPartition, ...]:
        """All assigned partitions."""
        return tuple(self._states)
