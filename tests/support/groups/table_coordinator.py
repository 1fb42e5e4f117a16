"""The smallest coordinator, a table of keys and values, and a shard of it over a log in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.support.clocks.virtual_time import VirtualTime
from tests.support.groups.state_log import MemoryStateLog
from tidelog.broker.coordinators.shared.append_linger import AppendTimes
from tidelog.broker.coordinators.shared.coordinator import RecordFormat
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import Outcome, Writes
from tidelog.broker.coordinators.shared.shard import Shard, ShardPorts, ShardState
from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.record import read_records

Entry = tuple[str, str]
"""A key and its new value."""

COMMIT_TIMEOUT_MS = 5_000


class Table:
    """A table whose records are entries; `fails_on` is a value that cannot be replayed.

    `deadlines` are the monotonic times at which entries are to be written, in their order.
    """

    def __init__(self) -> None:
        self.entries: dict[str, str] = {}
        self.committed_offset = 0
        self.fails_on: str | None = None
        self.deadlines: list[tuple[int, Entry]] = []

    def replay(self, record: Entry, record_offset: int) -> None:
        key, value = record
        if value == self.fails_on:
            raise AssertionError(f"the test lets the replay of {value!r} fail")
        self.entries[key] = value

    def advance(self, high_watermark: int) -> None:
        self.committed_offset = high_watermark

    def finish_loading(self, now: Moment) -> list[Writes[Entry]]:
        return []

    def next_deadline_ms(self) -> int | None:
        return self.deadlines[0][0] if self.deadlines else None

    def tick(self, now: Moment) -> Iterator[Writes[Entry]]:
        while self.deadlines and self.deadlines[0][0] <= now.monotonic_ms:
            _, entry = self.deadlines.pop(0)
            yield Writes([entry])

    def resign(self) -> None:
        self.entries.clear()


def encode(entry: Entry) -> tuple[bytes, bytes | None]:
    """Return key and value of an entry for the log."""
    key, value = entry
    return key.encode(), value.encode()


class TableShard:
    """An active shard, and the results of the commands in the order of their completion."""

    def __init__(self, linger_ms: int) -> None:
        self.log, self.time, self.table = MemoryStateLog(1), VirtualTime(), Table()
        self.results: list[tuple[str, ErrorCode]] = []
        self.diverged_count = 0
        self.shard: Shard[Table] = Shard(
            "partition 0 of tables",
            0,
            self.table,
            RecordFormat(encode, lambda _, batches: iter(())),
            ShardPorts(self.log, self.time, self.time),
            AppendTimes(linger_ms, COMMIT_TIMEOUT_MS),
            self._on_diverged,
        )
        self.shard.state = ShardState.ACTIVE

    def _on_diverged(self, shard: Shard[Table]) -> None:
        self.diverged_count += 1
        shard.close()

    def put_batched(self, key: str, value: str, count: int = 1) -> None:
        """Write `count` entries of a key by a batched command, whose result gets the name `value`."""
        outcome = Outcome(value, Writes([(key, value)] * count))
        assert self.shard.perform_batched(lambda _: outcome, self.on_completed(value)) == value

    def append_batched(self, key: str, text: str) -> None:
        """Append `text` to the value of a key by a batched command, which reads the value."""

        def command(table: Table) -> Outcome[str]:
            value = table.entries.get(key, "") + text
            return Outcome(value, Writes([(key, value)]))

        self.shard.perform_batched(command, self.on_completed(text), key)

    def put(self, key: str, value: str) -> None:
        """Write an entry by a command that is not batched."""
        self.shard.perform(Writes([(key, value)]), self.on_completed(value))

    def on_completed(self, name: str) -> Callable[[ErrorCode], None]:
        return lambda error: self.results.append((name, error))

    def appended(self) -> list[list[Any]]:
        """Return the values of the records of each batch in the log."""
        batches = []
        for batch in self.log.batches[0]:
            for position, header in iterate_headers(batch):
                records = read_records(batch, position, header)
                batches.append([(record.value or b"").decode() for record in records])
        return batches

    def replayed_log(self) -> dict[str, str]:
        """Return the table that a load of the log results in."""
        return dict(self._entries_in_log())

    def _entries_in_log(self) -> Iterator[Entry]:
        for batch in self.log.batches[0]:
            for position, header in iterate_headers(batch):
                for record in read_records(batch, position, header):
                    assert record.key is not None and record.value is not None
                    yield record.key.decode(), record.value.decode()
