"""The port through which share groups read and write the state of their share partitions.

The results of a call are in the order of its arguments. A call does not raise errors of Kafka: each result
has an error code. The errors that a caller must handle:

| error code | cause | action of the caller |
|---|---|---|
| FENCED_STATE_EPOCH | the share group was initialized again, or was deleted | drop the share partition |
| FENCED_LEADER_EPOCH | the partition has a newer leader | drop the share partition |
| UNKNOWN_TOPIC_OR_PARTITION | the state was never initialized, or was deleted | drop the share partition |
| INVALID_REQUEST | a negative offset or count, or no initialized state | report the error |
| COORDINATOR_NOT_AVAILABLE and others | all retries have failed | the caller may call again later |

Source: KIP-932, Persister of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, Self
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import LeaderEpoch, Offset, uuid_from_text, uuid_text

UNINITIALIZED_START_OFFSET: Final = -1
"""The start offset of a share partition that still has to start at `share.auto.offset.reset`."""

UNKNOWN_DELIVERY_COMPLETE_COUNT: Final = -1


class SharePartitionKey(NamedTuple):
    """A partition as one share group reads it."""

    group_id: str
    topic_id: UUID
    partition: int

    @property
    def coordinator_key(self) -> str:
        """The key with which FindCoordinator looks up the share coordinator (key type 2)."""
        return f"{self.group_id}:{uuid_text(self.topic_id)}:{self.partition}"

    @classmethod
    def from_coordinator_key(cls, key: str) -> Self:
        """Return the share partition of a key. Raise KafkaError INVALID_REQUEST for another text."""
        group_id, topic_id, partition = ["", "", "", *key.rsplit(":", 2)][-3:]
        try:
            share_partition = cls(group_id, uuid_from_text(topic_id), int(partition))
        except ValueError as error:
            raise _invalid_key(key) from error
        if not group_id:
            raise _invalid_key(key)
        return share_partition


@dataclass(frozen=True, slots=True)
class ShareStateBatch:
    """A range of records above the start offset with the same state and count; `last_offset` is inclusive.

    `delivery_state` is 0 available, 2 acknowledged, 4 archived, as in ShareUpdateValue.
    """

    first_offset: Offset
    last_offset: Offset
    delivery_state: int
    delivery_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialState:
    """Creates the state of a share partition, or replaces it if `state_epoch` is higher."""

    share_partition: SharePartitionKey
    state_epoch: int
    start_offset: Offset = UNINITIALIZED_START_OFFSET


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRead:
    """Reads a state as the leader of the partition in `leader_epoch`, which fences earlier leaders."""

    share_partition: SharePartitionKey
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class StateWrite:
    """Changes a state. A `start_offset` of -1 keeps the start offset; `batches` are merged into the state.

    `delivery_complete_count` is the number of records from the start offset on whose delivery is complete.
    """

    share_partition: SharePartitionKey
    state_epoch: int
    leader_epoch: LeaderEpoch
    start_offset: Offset
    delivery_complete_count: int = UNKNOWN_DELIVERY_COMPLETE_COUNT
    batches: tuple[ShareStateBatch, ...] = ()


@dataclass(frozen=True, slots=True)
class StateResult:
    """The result of a call that returns no state."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredState:
    """The state of a share partition; the batches are sorted and do not overlap."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    state_epoch: int = 0
    start_offset: Offset = 0
    batches: tuple[ShareStateBatch, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSummary:
    """The state of a share partition without its batches."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    state_epoch: int = 0
    leader_epoch: LeaderEpoch = 0
    start_offset: Offset = 0
    delivery_complete_count: int = UNKNOWN_DELIVERY_COMPLETE_COUNT


class SharePersister(Protocol):
    """Reads and writes the states of share partitions; the share coordinators of the cluster store them."""

    async def initialize(self, states: Sequence[InitialState]) -> list[StateResult]:
        """Create the states, or replace those with a lower state epoch."""
        ...

    async def read(self, reads: Sequence[StateRead]) -> list[StoredState]:
        """Return the states, and fence the leaders of earlier leader epochs."""
        ...

    async def write(self, writes: Sequence[StateWrite]) -> list[StateResult]:
        """Change the states. A result without an error is committed.

        There must be one call at a time for a share partition: a call may send its writes again, and the
        start offset of a later call must not be replaced by that of an earlier one.
        """
        ...

    async def delete(self, share_partitions: Sequence[SharePartitionKey]) -> list[StateResult]:
        """Delete the states. It is no error if a state does not exist."""
        ...

    async def read_summary(self, reads: Sequence[StateRead]) -> list[StateSummary]:
        """Return the states without their batches; no leader is fenced."""
        ...


def _invalid_key(key: str) -> KafkaError:
    text = f"{key!r} is not a key of a share partition, which is group:topicId:partition"
    return KafkaError(ErrorCode.INVALID_REQUEST, text)
