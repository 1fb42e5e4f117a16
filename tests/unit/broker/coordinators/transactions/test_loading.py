"""Batches of `__transaction_state` are replayed into the registry of transactional ids."""

from __future__ import annotations

import pytest

from tests.support.transactions.coordinator import ID
from tests.support.transactions.metadata_examples import EMPTY, WHOLE
from tidelog.broker.coordinators.transactions.loading import replay_batches
from tidelog.broker.coordinators.transactions.records import TransactionRecord, encode_record
from tidelog.broker.coordinators.transactions.registry import TransactionRegistry
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.errors import DecodeError


def test_batches_are_replayed_in_order_and_the_last_record_of_an_id_applies() -> None:
    builder = BatchBuilder(base_offset=5)
    for metadata in (EMPTY, WHOLE):
        builder.append(1, *encode_record(TransactionRecord(ID, metadata), 2))
    builder.append(1, *encode_record(TransactionRecord("gone", EMPTY), 2))
    builder.append(1, *encode_record(TransactionRecord("gone", None), 2))
    builder.append(1, b"\0\x09another", b"kind")
    registry = TransactionRegistry()
    assert list(replay_batches(registry, bytes(builder.build()))) == [(5, 10)]
    registry.advance(10)
    assert registry.committed_metadata(ID) == WHOLE
    assert registry.get("gone") is None


def test_an_unreadable_batch_is_reported_with_its_offset() -> None:
    builder = BatchBuilder(base_offset=5)
    builder.append(1, b"\0\0\0\x05tides", b"\0\x07")
    with pytest.raises(DecodeError, match="offset 5"):
        list(replay_batches(TransactionRegistry(), bytes(builder.build())))
