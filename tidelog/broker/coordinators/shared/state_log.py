"""The port to the log that stores a coordinator's state."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from typing import NamedTuple, Protocol

from tidelog.broker.coordinators.shared.encoded_records import EncodedRecords
from tidelog.protocol.ids import Offset


class AppendedRecords(NamedTuple):
    """Records that the leader has appended from `base_offset` on.

    `committed` completes when all in-sync replicas have the records. It raises KafkaError only if they will
    never be committed because the leadership is lost; a slow replica is not an error. It completes in the
    order of the appends.
    """

    base_offset: Offset
    committed: Awaitable[None]


class StateLog(Protocol):
    """The partitions of an internal topic that this node leads."""

    def partition_count(self) -> int:
        """Return the number of partitions that the topic has, or will have when it is created."""
        ...

    def is_likely_leader(self, partition: int) -> bool:
        """Return whether this node's leadership was confirmed recently.

        If not, this node is disconnected from the cluster, or was paused. Raise KafkaError if the partition
        is not on this node.
        """
        ...

    async def confirm_leadership(self, partition: int) -> None:
        """Wait until it is certain that no other node was the leader at the time of this call.

        Raise KafkaError if that cannot be determined.
        """
        ...

    def batch_bytes_max(self, partition: int) -> int:
        """Return the size of the largest batch that can be appended. Raise KafkaError as `append` does."""
        ...

    def check_size(self, partition: int, size_bytes: int) -> None:
        """Raise KafkaError MESSAGE_TOO_LARGE if a batch cannot have `size_bytes` of keys and values."""

    def append(self, partition: int, encoded: EncodedRecords) -> AppendedRecords:
        """Append all records as one batch.

        Raise KafkaError (NOT_ENOUGH_REPLICAS, NOT_LEADER_OR_FOLLOWER, MESSAGE_TOO_LARGE,
        KAFKA_STORAGE_ERROR ...) if no record has been appended.
        """
        ...

    def read(self, partition: int) -> AsyncIterator[bytes | memoryview]:
        """Yield the record batches of the partition from start to end, several batches at a time.

        Each part has at most the size of the load buffer, or is one batch that is larger.
        Errors: KafkaError, OSError.
        """
        ...

    async def wait_until_committed(self, partition: int, end_offset: Offset) -> None:
        """Wait, without a time limit, until the records below `end_offset` may be used.

        Raise KafkaError if this node is no longer the leader of the partition.
        """
        ...
