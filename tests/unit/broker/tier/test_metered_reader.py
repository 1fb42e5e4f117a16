"""Reads of the tier are counted by topic and held to the fetch quota (KIP-956)."""

from __future__ import annotations

from typing import cast

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tests.support.tier.remote_tier import PARTITION
from tidelog.broker.tier.metered_reader import MeteredReader
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.remote.reading.reader import RemoteLogReader
from tidelog.remote.reading.requests import LocalLog, RemoteRead, RemoteReadRequest
from tidelog.remote.tasks.byte_rate import ByteRate
from tidelog.remote.tasks.figures import RemoteFigures

REQUEST = RemoteReadRequest(PARTITION, 0, 1000, True, 10, False, cast(LocalLog, None))


class Reader:
    """Returns the results that the test defines."""

    outcome: RemoteRead | Exception = RemoteRead(bytes(700), 5)

    async def read(self, request: RemoteReadRequest) -> RemoteRead:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


def metered_reader(
    bytes_per_second: int = 2**63 - 1,
) -> tuple[MeteredReader, Reader, RemoteFigures, ManualClock]:
    reader, figures, clock = Reader(), RemoteFigures(), ManualClock()
    quota = ByteRate(bytes_per_second, 11, 1)
    return MeteredReader(cast(RemoteLogReader, reader), figures, quota, clock), reader, figures, clock


async def test_bytes_and_requests_are_counted_by_topic() -> None:
    reader, _, figures, _ = metered_reader()
    assert (await reader.read(REQUEST)).next_offset == 5
    topic = figures.topic(PARTITION.topic)
    assert (topic.fetch_requests, topic.fetch_bytes, topic.fetch_errors, reader.reads) == (1, 700, 0, 1)


async def test_failures_are_counted_except_for_absent_offsets() -> None:
    reader, inner, figures, _ = metered_reader()
    for code, errors in ((ErrorCode.OFFSET_OUT_OF_RANGE, 0), (ErrorCode.UNKNOWN_SERVER_ERROR, 1)):
        inner.outcome = KafkaError(code)
        with pytest.raises(KafkaError):
            await reader.read(REQUEST)
        assert figures.topic(PARTITION.topic).fetch_errors == errors


async def test_reads_are_refused_while_the_quota_is_exceeded() -> None:
    reader, _, figures, clock = metered_reader(bytes_per_second=100)
    assert reader.fetch_throttle_time_ms() == 0
    await reader.read(REQUEST)
    wait_ms = reader.fetch_throttle_time_ms()
    assert wait_ms > 0
    assert (figures.fetch_throttle_time_ms, figures.fetch_throttle_count) == (wait_ms, 1)
    clock.now_ms += 60_000
    assert reader.fetch_throttle_time_ms() == 0


async def test_damaged_bytes_are_counted_by_topic() -> None:
    reader, inner, figures, _ = metered_reader()
    inner.outcome = KafkaError(ErrorCode.CORRUPT_MESSAGE)
    with pytest.raises(KafkaError):
        await reader.read(REQUEST)
    topic = figures.topic(PARTITION.topic)
    assert (topic.fetch_damages, topic.fetch_errors) == (1, 1)
