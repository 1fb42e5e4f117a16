"""Prints the records that a member of a share group gets."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from tidelog.cli.records.record_format import RecordFormatter
from tidelog.clients.consumer.consumer_types import ConsumerRecord
from tidelog.clients.share_consumer.share_consumer import ShareConsumer
from tidelog.protocol.share_groups.acknowledge_type import AcknowledgeType

POLL_MS = 100
RECORDS_PER_POLL = 500


class ShareBounds:
    """When to stop: after `count` records, or when no record arrives for `idle_ms`; both are optional."""

    def __init__(self, count: int | None, idle_ms: int | None) -> None:
        self._left = count
        self._idle_ms_max = idle_ms
        self._idle_ms = 0

    @property
    def are_reached(self) -> bool:
        """Whether no more records are read."""
        return self._left == 0 or (self._idle_ms_max is not None and self._idle_ms >= self._idle_ms_max)

    def take(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """Return the records to print; the others are beyond the limit."""
        if self._left is None:
            return records
        taken = records[: self._left]
        self._left -= len(taken)
        return taken

    def on_poll(self, has_records: bool) -> None:
        """Record a poll, which waited if it returned no records."""
        self._idle_ms = 0 if has_records else self._idle_ms + POLL_MS


def acknowledgement_options(count: int | None) -> dict[str, Any]:
    """Return the options of the consumer; records beyond a limit are acknowledged explicitly."""
    if count is None:
        return {"max_poll_records": RECORDS_PER_POLL}
    return {
        "max_poll_records": min(count, RECORDS_PER_POLL),
        "share_acknowledgement_mode": "explicit",
        "share_acquire_mode": "record_limit",
    }


async def print_shared(
    consumer: ShareConsumer, topics: Iterable[str], bounds: ShareBounds, render: RecordFormatter
) -> None:
    """Print records and accept those that were printed."""
    output = sys.stdout.buffer
    async with consumer:
        consumer.subscribe(topics)
        while not bounds.are_reached:
            batches = await consumer.poll(POLL_MS)
            bounds.on_poll(bool(batches))
            for records in batches.values():
                taken = bounds.take(records)
                output.write(b"".join([render(record) for record in taken]))
                if consumer.config.is_explicit:
                    _acknowledge(consumer, taken, records)
            output.flush()


def _acknowledge(consumer: ShareConsumer, taken: list[ConsumerRecord], records: list[ConsumerRecord]) -> None:
    for record in taken:
        consumer.acknowledge(record)
    for record in records[len(taken) :]:
        consumer.acknowledge(record, AcknowledgeType.RELEASE)
