"""Topics for Spark: produced records, and the expected rows."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tests.support.nodes.topic_admin import TopicAdmin
from tidelog.clients.producer.producer import Producer

START_MS = 1_700_000_000_000


class Sent(NamedTuple):
    """One produced record."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int

    def row(self) -> tuple[Any, ...]:
        """Return key, value, headers and timestamp in ms as Spark should return them."""
        return self.key, self.value, list(self.headers) or None, self.timestamp_ms


def varied_records(count: int, size: int, seed: int = 1) -> list[Sent]:
    """Return nulls, tombstones, empty values, headers with null and repeated keys, and other records."""
    randomness = random.Random(seed)
    records = []
    for number in range(count):
        bulk = randomness.randbytes(size // 2) + bytes(size // 2)
        value = {3: None, 4: b""}.get(number % 50, bulk)
        key = {3: b"tombstone", 5: None, 6: b""}.get(number % 50, b"key %d" % (number % 7))
        headers: tuple[tuple[str, bytes | None], ...] = ()
        if number % 10 == 0:
            headers = (("number", b"%d" % number), ("grün", None), ("number", b""))
        records.append(Sent(key, value, headers, START_MS + 10 * number))
    return records


def numbered_records(count: int, first: int = 0, *, size: int = 6) -> list[Sent]:
    """Return records with their numbers as values, padded to `size` with leading zeros."""
    return [
        Sent(None, b"%0*d" % (size, number), (), 1_000 + number) for number in range(first, first + count)
    ]


def produce(servers: str, topic: str, records: Sequence[Sent], partition: int = 0, **options: Any) -> None:
    """Produce in order and wait for all acknowledgements."""

    async def send() -> None:
        async with Producer(servers, **options) as producer:
            futures = [
                await producer.send(
                    topic,
                    one.value,
                    key=one.key,
                    headers=one.headers,
                    partition=partition,
                    timestamp_ms=one.timestamp_ms,
                )
                for one in records
            ]
            await asyncio.gather(*futures)

    asyncio.run(send())


def create_topic(servers: str, topic: str, partitions: int = 1, **configs: str) -> None:
    """Create a topic; config keys have underscores instead of dots, and old timestamps do not expire."""
    topic_configs = {name.replace("_", "."): value for name, value in configs.items()}
    TopicAdmin(servers).create(topic, {"retention.ms": "-1", **topic_configs}, partitions)


def rows_by_offset(rows: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return key, value, headers and time of one partition's rows (Arrow's `to_pylist`), in log order."""
    ordered = sorted(rows, key=lambda row: row["offset"])
    return [
        (
            row["key"],
            row["value"],
            None if row["headers"] is None else [(one["key"], one["value"]) for one in row["headers"]],
            round(row["timestamp"].timestamp() * 1000),
        )
        for row in ordered
    ]
