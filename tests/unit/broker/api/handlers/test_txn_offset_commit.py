"""TxnOffsetCommit: verification, errors, and visibility of offsets (KIP-447)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.loops.yields import loop_iterations
from tests.support.transactions.transactional_node import OFFSETS, PRODUCER, TransactionalNode
from tidelog.broker.coordinators.verification.verifier import VerificationSettings
from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.errors import ErrorCode

DONE, UNSTABLE = ErrorCode.NONE, ErrorCode.UNSTABLE_OFFSET_COMMIT


@pytest.fixture
async def node() -> AsyncIterator[TransactionalNode]:
    node = await TransactionalNode().start()
    yield node
    await node.stop()


async def test_kip_447_offsets_are_unstable_until_the_transaction_has_ended(node: TransactionalNode) -> None:
    assert await node.commit_offset(5) is DONE
    assert await node.offset() == (-1, UNSTABLE)
    assert await node.offset(require_stable=False) == (-1, DONE)
    assert await node.offset(1) == (-1, DONE), "the other partition has nothing to do with it"
    await node.end(OFFSETS)
    assert await node.offset() == (5, DONE)


async def test_offsets_of_an_aborted_transaction_are_not_visible(node: TransactionalNode) -> None:
    await node.commit_plainly(3)
    await node.commit_offset(5)
    assert await node.offset(require_stable=False) == (3, DONE)
    await node.end(OFFSETS, commit=False)
    assert await node.offset() == (3, DONE)


async def test_the_records_are_part_of_the_producers_transaction(node: TransactionalNode) -> None:
    await node.commit_offset(5, epoch=2)
    log = node.partition(OFFSETS).log
    assert log.last_stable_offset == 0
    records = log.read(0, 1 << 20, at_least_one=True).records
    assert records is not None
    ((_, header),) = iterate_headers(records.read())
    assert header.is_transactional and not header.is_control
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (PRODUCER, 2, 0)


@pytest.mark.parametrize(("version", "verify_only"), [(0, True), (4, True), (5, False)])
async def test_the_partition_of_the_group_is_verified_or_added(
    node: TransactionalNode, version: int, verify_only: bool
) -> None:
    assert await node.commit_offset(5, version=version) is DONE
    assert await node.commit_offset(6, version=version) is DONE
    (transaction,) = node.coordinator.requested_transactions
    assert (transaction.producer_id, transaction.verify_only) == (PRODUCER, verify_only)
    assert [(topic.name, topic.partitions) for topic in transaction.topics] == [("__consumer_offsets", (0,))]


@pytest.mark.parametrize(
    ("reported", "version", "expected"),
    [
        (ErrorCode.INVALID_TXN_STATE, 4, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 4, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 5, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.NETWORK_EXCEPTION, 4, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NETWORK_EXCEPTION, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.PRODUCER_FENCED, 4, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
async def test_a_commit_in_an_unknown_transaction_is_refused(
    node: TransactionalNode, reported: ErrorCode, version: int, expected: ErrorCode
) -> None:
    node.use(VerificationSettings(is_enabled=True, retry_backoff_ms=0, retry_backoff_max_ms=0))
    node.coordinator.refusals = {OFFSETS: reported}
    assert await node.commit_offset(5, version=version) is expected
    assert node.partition(OFFSETS).log.log_end_offset == 0
    assert await node.offset() == (-1, DONE)


async def test_a_commit_waits_while_the_previous_transaction_ends(node: TransactionalNode) -> None:
    node.coordinator.refusals = {OFFSETS: ErrorCode.CONCURRENT_TRANSACTIONS}
    following = asyncio.ensure_future(node.commit_offset(5, version=5, epoch=1))
    await loop_iterations()
    assert not following.done()
    await node.end(OFFSETS, epoch=1, transaction_version=2)
    node.coordinator.refusals = {}
    assert await following is DONE


async def test_a_marker_before_the_commit_refuses_it(node: TransactionalNode) -> None:
    """KAFKA-14402, for offsets: no marker would ever end that transaction, and consumers wait for it."""
    node.coordinator.gate = asyncio.Event()
    late = asyncio.ensure_future(node.commit_offset(5))
    await loop_iterations()
    await node.end(OFFSETS, commit=False)
    node.coordinator.gate.set()
    # The coordinator may have confirmed a transaction that has not ended, so the producer retries.
    assert await late is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await node.offset() == (-1, DONE)


async def test_the_marker_of_the_previous_transaction_does_not_refuse_the_commit(
    node: TransactionalNode,
) -> None:
    assert await node.commit_offset(5, version=5) is DONE
    node.coordinator.gate = asyncio.Event()
    following = asyncio.ensure_future(node.commit_offset(6, version=5, epoch=1))
    await loop_iterations()
    assert await node.end(OFFSETS, epoch=1, transaction_version=2) == {OFFSETS: ErrorCode.NONE}
    node.coordinator.gate.set()
    assert await following is DONE
    assert await node.offset(require_stable=False) == (5, DONE)
    await node.end(OFFSETS, epoch=2, transaction_version=2)
    assert await node.offset() == (6, DONE)


async def test_a_fenced_producer_cannot_commit(node: TransactionalNode) -> None:
    await node.end(OFFSETS, commit=False, epoch=3)
    assert await node.commit_offset(5, epoch=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert await node.offset() == (-1, DONE)


async def test_unknown_topics_and_invalid_groups_are_refused(node: TransactionalNode) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await node.commit_offset(5, topic="nowhere") is unknown
    assert await node.commit_offset(5, 9) is unknown
    assert await node.commit_offset(5, group="") is ErrorCode.INVALID_GROUP_ID
    assert node.coordinator.requested_transactions == []


async def test_a_stale_generation_is_refused(node: TransactionalNode) -> None:
    assert await node.commit_offset(5, member_id="m", generation=1) is ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize(
    ("version", "expected"),
    [(1, ErrorCode.COORDINATOR_NOT_AVAILABLE), (2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)],
)
async def test_kafka_7296_older_producers_get_another_error_while_groups_are_loading(
    node: TransactionalNode, version: int, expected: ErrorCode
) -> None:
    node.groups.on_resignation(0)
    node.groups.on_leadership(0)
    assert await node.commit_offset(5, version=version) is expected


async def test_a_coordinator_that_moves_during_verification_commits_nothing(
    node: TransactionalNode,
) -> None:
    node.coordinator.gate = asyncio.Event()
    committing = asyncio.ensure_future(node.commit_offset(5))
    await loop_iterations()
    node.groups.on_resignation(0)
    node.coordinator.gate.set()
    assert await committing is ErrorCode.NOT_COORDINATOR
    assert node.partition(OFFSETS).log.log_end_offset == 0


async def test_a_later_commit_outside_the_transaction_prevails(
    node: TransactionalNode,
) -> None:
    await node.commit_offset(5)
    await node.commit_plainly(9)
    await node.end(OFFSETS)
    assert await node.offset() == (9, DONE)


async def test_a_deleted_group_is_not_restored_by_the_end_of_a_transaction(
    node: TransactionalNode,
) -> None:
    await node.commit_offset(5)
    assert (await node.groups.delete_groups(("g",)))[0].error_code == 0
    assert await node.offset() == (-1, DONE)
    await node.end(OFFSETS)
    assert await node.offset() == (-1, DONE)
    await node.load_groups()
    assert await node.offset() == (-1, DONE)
