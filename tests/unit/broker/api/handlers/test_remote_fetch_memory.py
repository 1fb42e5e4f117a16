"""The memory of remote fetches: its reservation, its limits and its release."""

from __future__ import annotations

import weakref

import pytest

from tests.support.loops.yields import loop_iterations
from tests.support.tier.tiered_fetches import TieredBroker, partitions_of, remote_read
from tidelog.remote.reading.requests import RemoteRead

SMALL = 90
"""Fewer bytes than any batch has."""


async def test_memory_for_remote_reads_is_reserved_within_fetch_max_bytes() -> None:
    broker = TieredBroker()
    request = broker.fetch(0, 0, 0, max_bytes=1_000, partition_max_bytes=700)
    reads = broker.tier.reader.reads
    assert [(read_request.max_bytes, read_request.at_least_one) for read_request, _ in reads] == [
        (700, True),
        (300, False),
    ]
    reads[0][1].set_result(RemoteRead(bytes(700), 2))
    reads[1][1].set_result(RemoteRead(bytes(300), 2))
    await loop_iterations(5)
    assert not partitions_of(request)[2].records


async def test_a_partition_without_remaining_bytes_is_not_read_remotely() -> None:
    broker = TieredBroker()
    broker.fetch(0, 0, max_bytes=500, partition_max_bytes=500)
    assert len(broker.tier.reader.reads) == 1


@pytest.mark.parametrize("end", ["read", "gone", "late"])
async def test_memory_of_a_remote_read_is_released_when_the_fetch_ends(end: str) -> None:
    """Before, completed fetches kept their data until a thousand of them had completed."""
    broker = TieredBroker()
    request = broker.fetch(0, 0)
    (_, first), (_, second) = broker.tier.reader.reads
    data = memoryview(remote_read("0", "1").records)
    left = weakref.ref(data)
    first.set_result(RemoteRead(data, 2))
    del data
    await loop_iterations(5)
    assert left() is not None
    if end == "read":
        second.set_result(remote_read("0", "1"))
    elif end == "gone":
        request.abandon()
    else:
        broker.pass_ms(501)
    broker.tier.reader.reads.clear()
    del first, second
    await loop_iterations(5)
    assert left() is None
    assert (broker.tier.fetches.delayed_count, broker.tier.fetches.watched_count) == (0, 0)
    ended = weakref.ref(request)
    del request
    assert ended() is None


async def test_a_remote_read_without_memory_is_not_taken_for_a_gap() -> None:
    broker = TieredBroker()
    request = broker.fetch(1)
    ((_, outcome),) = broker.tier.reader.reads
    outcome.set_result(RemoteRead(b"", 2))
    await loop_iterations(5)
    (partition,) = partitions_of(request)
    assert (partition.error_code, partition.records) == (0, b"")


@pytest.mark.parametrize("end", ["read", "gone", "late", "failed"])
async def test_a_remote_fetch_reserves_its_memory_until_it_ends(end: str) -> None:
    broker = TieredBroker()
    memory = broker.tier.reader.memory
    request = broker.fetch(0, 0, partition_max_bytes=1_000)
    assert memory.used_bytes == 2_000
    if end == "read":
        for _, outcome in broker.tier.reader.reads:
            outcome.set_result(remote_read("0", "1"))
    elif end == "failed":
        for _, outcome in broker.tier.reader.reads:
            outcome.set_exception(RuntimeError("the store is gone"))
    elif end == "gone":
        request.abandon()
    else:
        broker.pass_ms(501)
    await loop_iterations(5)
    assert memory.used_bytes == 0


async def test_remote_fetches_return_less_as_memory_runs_out() -> None:
    broker = TieredBroker()
    memory = broker.tier.reader.memory
    memory.limit_bytes = 1_000_000
    requests = [broker.fetch(0, partition_max_bytes=400_000) for _ in range(40)]
    granted = [read_request.max_bytes for read_request, _ in broker.tier.reader.reads]
    assert granted[:2] == [250_000, 187_500]
    assert memory.used_bytes <= memory.limit_bytes
    assert memory.is_used_up
    for request in requests:
        request.abandon()
    assert memory.used_bytes == 0
