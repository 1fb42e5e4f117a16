"""The position and fetch state of each partition that is assigned to a consumer.

Pure. The states of one partition and their transitions:

    INITIALIZING      has no position            -> AWAIT_RESET, AWAIT_VALIDATION, FETCHING
    AWAIT_RESET       needs an offset            -> AWAIT_VALIDATION, FETCHING, AWAIT_RESET
    AWAIT_VALIDATION  needs the epoch's end      -> FETCHING, AWAIT_RESET, AWAIT_VALIDATION
    FETCHING          can be fetched             -> AWAIT_RESET, AWAIT_VALIDATION, FETCHING

A transition from FETCHING to another state, or a seek, drops the records fetched in advance.

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
from tidelog.protocol.messages.fetch import PartitionData

EARLIEST_TIMESTAMP = -2
LATEST_TIMESTAMP = -1


class FetchState(Enum):
    """The fetch state of a partition; the transitions are at the beginning of this file."""

    INITIALIZING = auto()
    AWAIT_RESET = auto()
    AWAIT_VALIDATION = auto()
    FETCHING = auto()


_TRANSITIONS = {
    FetchState.INITIALIZING: {FetchState.AWAIT_RESET, FetchState.AWAIT_VALIDATION, FetchState.FETCHING},
    FetchState.AWAIT_RESET: {FetchState.AWAIT_RESET, FetchState.AWAIT_VALIDATION, FetchState.FETCHING},
    FetchState.AWAIT_VALIDATION: {FetchState.AWAIT_RESET, FetchState.AWAIT_VALIDATION, FetchState.FETCHING},
    FetchState.FETCHING: {FetchState.AWAIT_RESET, FetchState.AWAIT_VALIDATION, FetchState.FETCHING},
}


class PartitionState:
    """One assigned partition.

    `generation` increases when fetched or pending records become invalid (seek, reset).
    `retry_at_ms`: no lookup and no fetch before this time.
    """

    __slots__ = (
        "buffered",
        "error",
        "generation",
        "high_watermark",
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
        self.log_start_offset: Offset | None = None
        self.preferred_replica: BrokerId | None = None
        self.preferred_until_ms = 0

    def _transition(self, state: FetchState) -> None:
        assert state in _TRANSITIONS[self.state], f"{self.topic_partition}: {self.state} -> {state}"
        self.state = state
        self.retry_at_ms = 0

    def seek(self, position: FetchPosition, current_epoch: LeaderEpoch) -> None:
        """Set the position; it is validated first if its epoch is older than the leader's."""
        self._drop_fetched()
        self.position = position
        self.reset_timestamp = None
        needs_validation = position.offset_epoch > NO_LEADER_EPOCH and position.leader_epoch < current_epoch
        self._transition(FetchState.AWAIT_VALIDATION if needs_validation else FetchState.FETCHING)
        if not needs_validation:
            self.position = position._replace(leader_epoch=current_epoch)

    def await_reset(self, timestamp: int) -> None:
        """Set the position to the offset of EARLIEST_TIMESTAMP or LATEST_TIMESTAMP, once it is known."""
        self._drop_fetched()
        self.reset_timestamp = timestamp
        self._transition(FetchState.AWAIT_RESET)

    def on_leader_changed(self, leader_epoch: LeaderEpoch) -> None:
        """Require validation of the position if the metadata has a newer leader epoch."""
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

    def on_validated(self, leader_epoch: LeaderEpoch) -> None:
        """Record that the leader of `leader_epoch` has the record before the position."""
        assert self.position is not None
        self.position = self.position._replace(leader_epoch=leader_epoch)
        self._transition(FetchState.FETCHING)

    def pause(self) -> None:
        """Stop fetching and returning records until `resume`."""
        self.paused = True

    def resume(self) -> None:
        """End `pause`."""
        self.paused = False

    def fail(self, error: KafkaError) -> None:
        """Set the error that the application gets after the buffered records."""
        self.error = error

    def take_error(self) -> KafkaError | None:
        """Remove and return the error."""
        error, self.error = self.error, None
        return error

    def drop_damaged(self, error: KafkaError) -> None:
        """Drop the buffered records, which cannot be decoded, and set the error."""
        self.buffered.clear()
        self.error = error

    def back_off(self, until_ms: int) -> None:
        """Allow no lookup and no fetch before `until_ms`."""
        self.retry_at_ms = until_ms

    def fetch_from_leader(self) -> None:
        """Fetch from the leader, not from a preferred replica (KIP-392)."""
        self.preferred_replica = None

    def on_fetch_response(self, data: PartitionData, preferred_until_ms: int) -> None:
        """Record the offsets of a response; use its preferred replica until `preferred_until_ms`."""
        self.high_watermark = data.high_watermark

        self.log_start_offset = data.log_start_offset
        if data.preferred_read_replica >= 0:
            self.preferred_replica = data.preferred_read_replica
            self.preferred_until_ms = preferred_until_ms

    @property
    def is_fetchable(self) -> bool:
        """Whether records may be fetched and returned."""
        return self.state is FetchState.FETCHING and not self.paused

    @property
    def next_fetch(self) -> FetchPosition:
        """The position of the next fetch, after the buffered records."""
        assert self.position is not None
        if not self.buffered:
            return self.position
        last = self.buffered[-1]
        return FetchPosition(last.next_offset, last.last_epoch, self.position.leader_epoch)

    def advance(self, next_offset: Offset, offset_epoch: LeaderEpoch) -> None:
        """Move the position to `next_offset`: the records before it were taken."""
        assert self.position is not None
        self.position = FetchPosition(next_offset, offset_epoch, self.position.leader_epoch)

    def _drop_fetched(self) -> None:
        self.buffered.clear()
        self.error = None
        self.generation += 1


class AssignedPartitions:
    """The partitions that one consumer reads, in the order of their next turns."""

    __slots__ = ("_states",)

    def __init__(self) -> None:
        self._states: dict[TopicPartition, PartitionState] = {}

    def set(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Assign exactly these partitions; those that were assigned before keep their state."""
        before = self._states
        self._states = {
            topic_partition: before.get(topic_partition) or PartitionState(topic_partition)
            for topic_partition in dict.fromkeys(topic_partitions)
        }

    def get(self, topic_partition: TopicPartition) -> PartitionState | None:
        """Return the state of a partition; None if it is not assigned."""
        return self._states.get(topic_partition)

    def move_to_end(self, topic_partition: TopicPartition) -> None:
        """Move this partition after the others."""
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
