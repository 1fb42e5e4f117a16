"""The transactional ids of one partition: what is committed of each, and what is appended beyond it.

A step that is appended is not visible before it is committed; until then its id is pending, and every
request that would take another step is told CONCURRENT_TRANSACTIONS. So an id is at most one step ahead
of what every in-sync replica has, and nobody is told or sent anything that may be lost again.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator

from tidelog.broker.coordinators.transactions.metadata import TransactionMetadata
from tidelog.broker.coordinators.transactions.states import TransactionState
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset, TopicPartition


class TransactionEntry:
    """One transactional id.

    `committed` is None while its first step is not committed. `unmarked`: the partitions of a prepared
    transaction of which no marker is known to be written; not in the log, a new coordinator writes all again.
    """

    __slots__ = ("appended", "committed", "pending_offset", "unmarked")

    def __init__(self) -> None:
        self.committed: TransactionMetadata | None = None
        self.appended: TransactionMetadata | None = None
        self.pending_offset: Offset | None = None
        self.unmarked: set[TopicPartition] = set()

    @property
    def is_pending(self) -> bool:
        """Whether a step is appended and not committed, or markers are being written before the next."""
        if self.pending_offset is not None:
            return True
        return self.committed is not None and self.committed.state.is_prepared


class TransactionRegistry:
    """`replay` appends a step, `advance` commits what is below the high watermark."""

    def __init__(self) -> None:
        self._entries: dict[str, TransactionEntry] = {}
        self._uncommitted: deque[tuple[Offset, str]] = deque()

    def get(self, transactional_id: str) -> TransactionEntry | None:
        """The entry of an id, if there is one."""
        return self._entries.get(transactional_id)

    def committed(self, transactional_id: str) -> TransactionMetadata | None:
        """What is committed of an id."""
        entry = self._entries.get(transactional_id)
        return None if entry is None else entry.committed

    def waits_only_for_commit(self, transactional_id: str) -> bool:
        """Return whether the next step only waits for the commit of the last one, and not for markers."""
        entry = self._entries.get(transactional_id)
        return (
            entry is not None
            and entry.pending_offset is not None
            and entry.appended is not None
            and not entry.appended.state.is_prepared
        )

    def settled(self, transactional_id: str) -> TransactionMetadata:
        """What the next step starts from.

        Errors: INVALID_PRODUCER_ID_MAPPING for an id that is not known, CONCURRENT_TRANSACTIONS while
        another step is under way.
        """
        entry = self._entries.get(transactional_id)
        if entry is None:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"{transactional_id!r} is not known")
        if entry.is_pending:
            text = f"a step of {transactional_id!r} is under way"
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, text)
        assert entry.committed is not None
        return entry.committed

    def __iter__(self) -> Iterator[TransactionEntry]:
        return iter(list(self._entries.values()))

    def __len__(self) -> int:
        return len(self._entries)

    def replay(
        self, transactional_id: str, metadata: TransactionMetadata | None, record_offset: Offset
    ) -> None:
        """A step, or with None the end of an id, is in the log at `record_offset`."""
        entry = self._entries.get(transactional_id)
        if entry is None:
            entry = self._entries[transactional_id] = TransactionEntry()
        entry.appended, entry.pending_offset = metadata, record_offset
        self._uncommitted.append((record_offset, transactional_id))

    def advance(self, high_watermark: Offset) -> list[TransactionEntry]:
        """Commit what is below `high_watermark`; the entries whose transaction is prepared by that."""
        prepared = []
        while self._uncommitted and self._uncommitted[0][0] < high_watermark:
            offset, transactional_id = self._uncommitted.popleft()
            entry = self._entries.get(transactional_id)
            if entry is None or entry.pending_offset != offset:
                continue
            entry.pending_offset = None
            if entry.appended is None:
                del self._entries[transactional_id]
                continue
            entry.committed, entry.appended = entry.appended, None
            entry.unmarked = set(entry.committed.partitions) if entry.committed.state.is_prepared else set()
            if entry.committed.state.is_prepared:
                prepared.append(entry)
        return prepared

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._uncommitted.clear()

    def state_counts(self) -> Counter[TransactionState]:
        """How many ids are in each state."""
        return Counter(entry.committed.state for entry in self._entries.values() if entry.committed)
