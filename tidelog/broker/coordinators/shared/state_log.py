"""The log that keeps a coordinator's state, as the coordinator sees it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import NamedTuple, Protocol

from tidelog.protocol.ids import Offset


class AppendedRecords(NamedTuple):
    """Records that are in the leader's log from `base_offset` on.

    `committed`: done when all in-sync replicas have them. It raises KafkaError only if they
    will never be committed, so the leadership is lost; being slow is no error. It completes in
    the order of the appends.
    """

    base_offset: Offset
    committed: Awaitable[None]


class StateLog(Protocol):
    """An internal topic as far as this node leads it."""

    def partition_count(self) -> int:
        """How many partitions the topic has, or will have once it is created."""
        ...

    def is_likely_led(self, partition: int) -> bool:
        """Whether this node was heard of as the leader lately; if not it is cut off, or was frozen.

        Errors: KafkaError when the partition is not here.
        """
        ...

    async def confirm_led(self, partition: int) -> None:
        """Return when what is in memory is the truth as of this call: nobody else led the partition then.

        Errors: KafkaError when that cannot be known.
        """
        ...

    def append(self, partition: int, records: Sequence[tuple[bytes, bytes | None]]) -> AppendedRecords:
        """Append all records, key and value, as one batch, at once.

        Errors: KafkaError (NOT_ENOUGH_REPLICAS, NOT_LEADER_OR_FOLLOWER, MESSAGE_TOO_LARGE,
        KAFKA_STORAGE_ERROR ...) when none of them is in the log.
        """
        ...

    def read(self, partition: int) -> AsyncIterator[bytes | memoryview]:
        """Whole record batches from the start of the partition to its end, some of them at a time.

        At most the load buffer's size at once, or one batch if that is larger.
        Errors: KafkaError, OSError.
        """
        ...

    async def settled(self, partition: int, end_offset: Offset) -> None:
        """Return when what was read up to `end_offset` may be acted on, which can take any time.

        Errors: KafkaError when this node does not lead the partition any more.
        """
        ...
