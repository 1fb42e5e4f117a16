"""`tidelog produce` as one transaction, against a coordinator with scripted responses."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import tidelog.cli.records.produce
from tests.support.network.scripted_broker import responses_in_order
from tests.support.network.scripted_coordinators import TransactionalBrokers, transactional_brokers
from tests.support.transactions.producers import end_txn_response
from tidelog.cli.records.input_records import RecordSplitter
from tidelog.cli.records.produce import Target, _produce
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
