"""Random transactional offset commits on a real log, compared with a reference model and reloads."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import NamedTuple

import pytest

from tests.support.configs import (
    consumer_group_config,
    group_config,
    share_group_config,
    streams_group_config,
)
from tests.support.transactions.transactional_node import OFFSETS, TransactionalNode
from tidelog.broker.coordinators.groups.coordinator import GroupCoordinator
from tidelog.broker.coordinators.groups.loading import replay_batches
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.offset_fetch import OffsetFetchRequestTopics
from tidelog.protocol.steps import run_steps

PARTITIONS = (0, 1)
PRODUCERS = (7, 8, 9)
STEPS = 60

View = tuple[tuple[int, int, ErrorCode], ...]
"""For each partition: the offset, and the offset and the error of a request that requires stable offsets."""


class Position(NamedTuple):
    """An offset, and the number of commits in the log when it was committed."""

    offset: int
    written: int


class Model:
    """A naive model of TxnOffsetCommit and transaction markers."""

    def __init__(self) -> None:
        self.committed: dict[int, Position] = {}
        self.pending: dict[int, dict[int, Position]] = defaultdict(dict)
        self.written = 0

    def commit(self, partition: int, offset: int, producer_id: int | None = None) -> None:
        self.written += 1
        offsets = self.committed if producer_id is None else self.pending[producer_id]
        offsets[partition] = Position(offset, self.written)

    def end(self, producer_id: int, *, commit: bool) -> None:
        for partition, position in self.pending.pop(producer_id, {}).items():
            newest = self.committed.get(partition, Position(-1, -1))
            if commit and newest.written < position.written:
                self.committed[partition] = position

    def delete(self, partition: int) -> None:
        for offsets in (self.committed, *self.pending.values()):
            offsets.pop(partition, None)

    def view(self) -> View:
        rows = []
        for partition in PARTITIONS:
            offset = self.committed.get(partition, Position(-1, -1)).offset
            is_unstable = any(partition in offsets for offsets in self.pending.values())
            error = ErrorCode.UNSTABLE_OFFSET_COMMIT if is_unstable else ErrorCode.NONE
            rows.append((offset, -1 if is_unstable else offset, error))
        return tuple(rows)


def view_of(coordinator: GroupCoordinator) -> View:
    requested = (OffsetFetchRequestTopics(name="t", partition_indexes=PARTITIONS),)
    (unstable,) = run_steps(coordinator.offset_fetch.fetch("g", requested, False))
    (stable,) = run_steps(coordinator.offset_fetch.fetch("g", requested, True))
    return tuple(
        (one.committed_offset, other.committed_offset, ErrorCode(other.error_code))
        for one, other in zip(unstable.partitions, stable.partitions, strict=True)
    )


async def one_step(node: TransactionalNode, model: Model, chance: random.Random, number: int) -> None:
    """Perform one action of a producer, a transaction coordinator or an administrator."""
    partition, producer_id = chance.choice(PARTITIONS), chance.choice(PRODUCERS)
    match chance.choice(
        ["transactional", "transactional", "plain", "end", "end", "fenced", "delete", "load"]
    ):
        case "transactional":
            assert await node.commit_offset(number, partition, producer_id=producer_id) is ErrorCode.NONE
            model.commit(partition, number, producer_id)
        case "plain":
            await node.commit_plainly(number, partition)
            model.commit(partition, number)
        case "end":
            commit = chance.random() < 0.6
            ended = await node.end(OFFSETS, commit=commit, producer_id=producer_id, coordinator_epoch=1)
            assert ended == {OFFSETS: ErrorCode.NONE}
            model.end(producer_id, commit=commit)
        case "fenced":
            commit = chance.random() < 0.5
            errors = await node.end(OFFSETS, commit=commit, producer_id=producer_id, coordinator_epoch=0)
            # This epoch is the newest until a coordinator has used a higher one.
            if errors == {OFFSETS: ErrorCode.NONE}:
                model.end(producer_id, commit=commit)
            else:
                assert errors == {OFFSETS: ErrorCode.TRANSACTION_COORDINATOR_FENCED}
        case "delete" if model.written:
            await node.delete_offset(partition)
            model.delete(partition)
        case "load":
            await node.load_groups()


async def view_over_requests(node: TransactionalNode) -> View:
    offsets = []
    for partition in PARTITIONS:
        offset, _ = await node.offset(partition, require_stable=False)
        offsets.append((offset, *await node.offset(partition)))
    return tuple(offsets)


@pytest.mark.parametrize("seed", range(40))
async def test_transactional_offsets_equal_a_reference_model_after_every_reload(
    seed: int,
) -> None:
    chance = random.Random(seed)
    node, model = await TransactionalNode().start(), Model()
    log = node.partition(OFFSETS).log
    views: dict[int, View] = {0: model.view()}
    for number in range(STEPS):
        await one_step(node, model, chance, number)
        views[log.log_end_offset] = model.view()
        assert await view_over_requests(node) == model.view(), f"seed {seed}, step {number}"
    await node.stop()

    # Another coordinator that loads the log has the same state at each offset.
    records = log.read(0, 1 << 20, at_least_one=True).records
    assert records is not None
    loading = GroupCoordinator(
        group_config(),
        consumer_group_config,
        lambda: node.replicas.image,
        lambda: "x",
        share_group_config,
        streams_group_config,
    )
    compared = 0
    for _, next_offset in replay_batches(loading, records.read()):
        loading.advance(next_offset)
        if next_offset in views:
            assert view_of(loading) == views[next_offset], f"seed {seed}, offset {next_offset}"
            compared += 1
    assert compared == len(views) - 1
