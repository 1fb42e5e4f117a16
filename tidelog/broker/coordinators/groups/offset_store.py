"""The committed offsets of all groups of one partition of `__consumer_offsets`.

Replaying a record changes `latest` at once; commands use it. `committed` follows when the high watermark
passes the record, and is all that OffsetFetch returns: an offset that a new leader might not have must not
be visible.

The offsets of a transaction are kept by producer id until its end marker (KIP-447). When it commits, an
offset that was committed outside of it later in the log is kept. They are unstable until the high watermark
passes the marker: before that, `committed` still has the offset from before the transaction.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping

from tidelog.broker.coordinators.groups.records.offset_records import (
    CommittedOffset,
    OffsetCommitRecord,
    OffsetKey,
)
from tidelog.protocol.ids import Offset, ProducerId


class OffsetTable:
    """Offsets by group, topic and partition; empty entries are removed."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        self.size = 0
        """The number of offsets."""

    def get(self, key: OffsetKey) -> CommittedOffset | None:
        """Return the offset; None if there is none."""
        return self._groups.get(key.group_id, {}).get(key.topic, {}).get(key.partition)

    def put(self, key: OffsetKey, value: CommittedOffset | None) -> None:
        """Set the offset, or remove it if `value` is None."""
        group_id, topic, partition = key
        if value is None:
            self._remove(group_id, topic, partition)
            return
        try:
            partitions = self._groups[group_id][topic]
        except KeyError:
            partitions = self._groups.setdefault(group_id, {}).setdefault(topic, {})
        self.size += partition not in partitions
        partitions[partition] = value

    def put_all(self, group_id: str, topic: str, offsets: Mapping[int, CommittedOffset]) -> None:
        """Set the offsets of partitions of one topic."""
        partitions = self._groups.setdefault(group_id, {}).setdefault(topic, {})
        before = len(partitions)
        partitions.update(offsets)
        self.size += len(partitions) - before

    def _remove(self, group_id: str, topic: str, partition: int) -> None:
        topics = self._groups.get(group_id, {})
        partitions = topics.get(topic, {})
        self.size -= partitions.pop(partition, None) is not None
        if not partitions:
            topics.pop(topic, None)
        if not topics:
            self._groups.pop(group_id, None)

    def offsets_of_group(self, group_id: str) -> dict[str, dict[int, CommittedOffset]]:
        """Return the offsets of one group by topic and partition. The caller must not change them."""
        return self._groups.get(group_id, {})

    def group_ids(self) -> list[str]:
        """Return the groups that have offsets."""
        return list(self._groups)

    def items(self) -> Iterator[tuple[OffsetKey, CommittedOffset]]:
        """Yield all offsets."""
        for group_id, topics in self._groups.items():
            for topic, partitions in topics.items():
                for partition, value in partitions.items():
                    yield OffsetKey(group_id, topic, partition), value


class OffsetStore:
    """Offsets as of the end of the log and as of the high watermark.

    Bounds: `_uncommitted` and `_ending` hold what is appended and not committed, which the log bounds.
    """

    def __init__(self) -> None:
        self.latest = OffsetTable()
        self.committed = OffsetTable()
        self._uncommitted: deque[tuple[Offset, OffsetKey, CommittedOffset | None]] = deque()
        self._in_transactions: dict[ProducerId, dict[OffsetKey, CommittedOffset]] = {}
        # By group: the number of transactions of an offset that are open or whose end is not committed.
        self._unstable: dict[str, Counter[OffsetKey]] = {}
        self._ending: deque[tuple[Offset, OffsetKey]] = deque()

    def replay(self, record: OffsetCommitRecord, record_offset: Offset, producer_id: ProducerId) -> None:
        """Apply one record; `producer_id` is -1 unless the record is part of a transaction."""
        key, appended = record
        if appended is None:
            self._put(key, None, record_offset)
            if self.has_open_transaction(key):
                for offsets in self._in_transactions.values():
                    if offsets.pop(key, None) is not None:
                        self._ending.append((record_offset, key))
            return
        value = appended.appended_at(record_offset)
        if producer_id < 0:
            self._put(key, value, record_offset)
        else:
            offsets = self._in_transactions.setdefault(producer_id, {})
            if key not in offsets:
                self._unstable.setdefault(key.group_id, Counter())[key] += 1
            offsets[key] = value

    def load(
        self, group_id: str, topic: str, offsets: Mapping[int, CommittedOffset], first_offset: Offset
    ) -> None:
        """Apply commits outside of transactions, whose first record is at `first_offset`.

        They are visible at once. Only while a partition is loaded: all that its log has counts as committed.
        """
        self.advance(first_offset)
        self.latest.put_all(group_id, topic, offsets)
        self.committed.put_all(group_id, topic, offsets)

    def end_transaction(self, producer_id: ProducerId, is_commit: bool, record_offset: Offset) -> None:
        """Apply or drop the offsets of the transaction of `producer_id`, if it has any."""
        for key, value in self._in_transactions.pop(producer_id, {}).items():
            self._ending.append((record_offset, key))
            existing = self.latest.get(key)
            if is_commit and (existing is None or existing.record_offset < value.record_offset):
                self._put(key, value, record_offset)

    def advance(self, high_watermark: Offset) -> None:
        """Commit the changes below `high_watermark`."""
        while self._uncommitted and self._uncommitted[0][0] < high_watermark:
            _, key, value = self._uncommitted.popleft()
            self.committed.put(key, value)
        while self._ending and self._ending[0][0] < high_watermark:
            self._mark_stable(self._ending.popleft()[1])

    def has_open_transaction(self, key: OffsetKey) -> bool:
        """Return whether a transaction commits this offset and its end is not committed."""
        return key in self._unstable.get(key.group_id, ())

    def keys_in_transactions(self, group_id: str) -> list[OffsetKey]:
        """Return the offsets of a group that are part of transactions whose end is not committed."""
        return list(self._unstable.get(group_id, ()))

    def in_open_transactions(self) -> Iterator[tuple[OffsetKey, CommittedOffset]]:
        """Yield every offset of a transaction that has not ended, with its pending value."""
        for offsets in self._in_transactions.values():
            yield from offsets.items()

    def _mark_stable(self, key: OffsetKey) -> None:
        counts = self._unstable[key.group_id]
        counts[key] -= 1
        if counts[key] == 0:
            del counts[key]
        if not counts:
            del self._unstable[key.group_id]

    def _put(self, key: OffsetKey, value: CommittedOffset | None, record_offset: Offset) -> None:
        self.latest.put(key, value)
        self._uncommitted.append((record_offset, key, value))
