"""`tidelog produce`: one transaction with a coordinator of scripted responses, and the last records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest

import tidelog.cli.records.produce
from tests.support.network.scripted_broker import responses_in_order
from tests.support.network.scripted_coordinators import TransactionalBrokers, transactional_brokers
from tests.support.transactions.producers import end_txn_response
from tidelog.cli.records.input_records import InputRecord, RecordSplitter
from tidelog.cli.records.produce import Deliveries, Target, _produce
from tidelog.clients.producer.producer import Producer
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.registry import ApiKey


@pytest.fixture
async def cluster() -> AsyncIterator[TransactionalBrokers]:
    async with transactional_brokers() as both:
        yield both


async def one_line() -> AsyncIterator[bytes]:
    yield b"high\n"


async def test_a_commit_longer_than_the_request_timeout_is_awaited(
    cluster: TransactionalBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tidelog.cli.records.produce, "read_input", one_line)
    busy = end_txn_response(ErrorCode.CONCURRENT_TRANSACTIONS)
    cluster.coordinator.handlers[ApiKey.END_TXN] = responses_in_order(*[busy] * 100, end_txn_response())
    splitter = RecordSplitter(
        delimiter=b"\n", key_separator=None, fixed_key=None, null_empty=False, record_bytes_max=1000
    )
    await _produce(cluster.producer(max_block_ms=500), splitter, Target("tides", None, (), False))
    requested = cluster.coordinator.requests(ApiKey.END_TXN)
    assert len(requested) == 101 and all(request.committed for request in requested)


class PromptProducer:
    """A producer whose records are all written when `flush` is called, so that it does not wait."""

    def __init__(self) -> None:
        self._futures: list[asyncio.Future[None]] = []

    async def send(self, *_: object, **__: object) -> asyncio.Future[None]:
        """Accept a record."""
        self._futures.append(asyncio.get_running_loop().create_future())
        return self._futures[-1]

    async def flush(self, timeout_ms: int | None) -> None:
        """Complete all records at once."""
        for future in self._futures:
            future.set_result(None)


async def test_records_that_are_written_at_the_last_moment_are_not_reported_as_lost(
    capsys: pytest.CaptureFixture[str],
) -> None:
    deliveries = Deliveries(Target("t", 0, (), verbose=False))
    producer = cast(Producer, PromptProducer())
    await deliveries.send(producer, [InputRecord(None, b"one"), InputRecord(None, b"two")])
    await deliveries.flush_read_records(producer, None)
    assert capsys.readouterr().err == ""
