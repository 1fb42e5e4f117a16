"""The transactional ids of one partition: the committed metadata of each, and a transition that is appended.

A transition that is appended is not visible before it is committed. Until then the id is pending, and every
command for another transition fails with CONCURRENT_TRANSACTIONS. So an id is at most one transition ahead of
the in-sync replicas, and no client or broker receives a state that may be lost.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator

from tidelog.broker.coordinators.transactions.metadata import TransactionMetadata
from tidelog.broker.coordinators.transactions.states import TransactionState
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset, TopicPartition


class TransactionEntry:
    """One transactional id.

    `committed_metadata` is None until its first transition is committed. `partitions_without_marker` are the
    partitions of a prepared transaction whose marker is not known to be written. They are not stored in the
    log: a new coordinator writes all markers again.
    """

    __slots__ = ("appended_metadata", "committed_metadata", "partitions_without_marker", "pending_offset")

    def __init__(self) -> None:
        self.committed_metadata: TransactionMetadata | None = None
        self.appended_metadata: TransactionMetadata | None = None
        self.pending_offset: Offset | None = None
        self.partitions_without_marker: set[TopicPartition] = set()

    @property
    def is_pending(self) -> bool:
        """Whether a transition is not committed, or markers must be written before the next transition."""
        if self.pending_offset is not None:
            return True
        return self.is_prepared

    @property
    def is_prepared(self) -> bool:
        """Whether the transaction is prepared, so that its partitions need markers."""
        return self.committed_metadata is not None and self.committed_metadata.state.is_prepared

    def append(self, metadata: TransactionMetadata | None, record_offset: Offset) -> None:
        """Keep a transition, or with None the removal of the id, until it is committed."""
        self.appended_metadata, self.pending_offset = metadata, record_offset

    def commit(self) -> bool:
        """Commit the last transition; return False if it removes the id."""
        self.pending_offset = None
        if self.appended_metadata is None:
            return False
        metadata, self.appended_metadata = self.appended_metadata, None
        self.committed_metadata = metadata
        self.partitions_without_marker = set(metadata.partitions) if metadata.state.is_prepared else set()
        return True

    def on_markers_written(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that these partitions have their marker, or have been deleted."""
        self.partitions_without_marker.difference_update(partitions)


class TransactionRegistry:
    """The entries by transactional id: `replay` appends a transition, `advance` commits it."""

    def __init__(self) -> None:
        self._entries: dict[str, TransactionEntry] = {}
        self._uncommitted: deque[tuple[Offset, str]] = deque()

    def get(self, transactional_id: str) -> TransactionEntry | None:
        """Return the entry of an id; None if there is none."""
        return self._entries.get(transactional_id)

    def committed_metadata(self, transactional_id: str) -> TransactionMetadata | None:
        """Return the committed metadata of an id; None if there is none."""
        entry = self._entries.get(transactional_id)
        return None if entry is None else entry.committed_metadata

    def waits_only_for_commit(self, transactional_id: str) -> bool:
        """Return whether the next transition waits for the commit of the last one, but not for markers."""
        entry = self._entries.get(transactional_id)
        return (
            entry is not None
            and entry.pending_offset is not None
            and entry.appended_metadata is not None
            and not entry.appended_metadata.state.is_prepared
        )

    def metadata_to_change(self, transactional_id: str) -> TransactionMetadata:
        """Return the metadata that the next transition starts from.

        Raise INVALID_PRODUCER_ID_MAPPING for an unknown id, CONCURRENT_TRANSACTIONS while a transition is
        pending.
        """
        entry = self._entries.get(transactional_id)
        if entry is None:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"the transactional id {transactional_id!r} is unknown"
            )
        if entry.is_pending:
            text = f"another transition of {transactional_id!r} is pending"
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, text)
        assert entry.committed_metadata is not None
        return entry.committed_metadata

    def __iter__(self) -> Iterator[TransactionEntry]:
        return iter(list(self._entries.values()))

    def __len__(self) -> int:
        return len(self._entries)

    def replay(
        self, transactional_id: str, metadata: TransactionMetadata | None, record_offset: Offset
    ) -> None:
        """Apply a transition, or with None the removal of an id, that is in the log at `record_offset`."""
        entry = self._entries.get(transactional_id)
        if entry is None:
            entry = self._entries[transactional_id] = TransactionEntry()
        entry.append(metadata, record_offset)
        self._uncommitted.append((record_offset, transactional_id))

    def advance(self, high_watermark: Offset) -> list[TransactionEntry]:
        """Commit the transitions below `high_watermark`. Return the entries that are now prepared."""
        prepared = []
        while self._uncommitted and self._uncommitted[0][0] < high_watermark:
            offset, transactional_id = self._uncommitted.popleft()
            entry = self._entries.get(transactional_id)
            if entry is None or entry.pending_offset != offset:
                continue
            if not entry.commit():
                del self._entries[transactional_id]
            elif entry.is_prepared:
                prepared.append(entry)
        return prepared

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()
        self._uncommitted.clear()

    def state_counts(self) -> Counter[TransactionState]:
        """Return the number of ids in each state."""
        return Counter(
            entry.committed_metadata.state for entry in self._entries.values() if entry.committed_metadata
        )
