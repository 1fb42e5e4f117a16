"""The state that a new leader reads: complete, or without records that an unclean election has lost."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.support.share_groups.memory_persister import MemoryPersister, StateOfOffsets
from tidelog.broker.coordinators.share.persister import SharePartitionKey, ShareStateBatch, StoredState
from tidelog.broker.share_partitions.stored_states import read_state
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.storage.leader_epoch import EpochEntry, LeaderEpochCache

KEY = SharePartitionKey("g", UUID(int=1), 0)
ACKNOWLEDGED = (2, 1)


async def read(persister: MemoryPersister, log_end: int, *epochs: tuple[int, int]) -> StoredState:
    """Read as the leader in the last of the epochs, each with the offset at which it starts."""
    cache = LeaderEpochCache.of(EpochEntry(*entry) for entry in epochs)
    return await read_state(persister, KEY, epochs[-1][0], cache, log_end)


def persister_with(start: int, leader_epoch: int, acknowledged: range = range(0)) -> MemoryPersister:
    persister = MemoryPersister()
    states = dict.fromkeys(acknowledged, ACKNOWLEDGED)
    persister.stored[KEY] = StateOfOffsets(start, leader_epoch, states)
    return persister


async def test_a_state_within_the_log_is_not_replaced() -> None:
    persister = persister_with(3, 4, range(5, 10))
    state = await read(persister, 12, (4, 0), (5, 10))
    assert (state.start_offset, state.batches) == (3, (ShareStateBatch(5, 9, 2, 1),))
    assert not persister.initialized and persister.stored[KEY].leader_epoch == 5


async def test_acknowledgements_of_records_lost_by_an_unclean_election_do_not_apply_to_new_records() -> None:
    persister = persister_with(3, 4, range(5, 10))
    state = await read(persister, 7, (4, 0), (5, 7))
    assert (state.start_offset, state.batches) == (3, (ShareStateBatch(5, 6, 2, 1),))
    again = await read(persister, 20, (4, 0), (5, 7), (6, 20))
    assert again == state, "the states of the lost records do not return after a reload"


async def test_the_loss_is_found_after_new_records_have_taken_the_lost_offsets() -> None:
    persister = persister_with(10, 4)
    state = await read(persister, 50, (4, 0), (5, 7), (6, 40))
    assert (state.start_offset, state.batches) == (7, ())


async def test_the_loss_is_found_again_if_the_state_could_not_be_replaced() -> None:
    persister = persister_with(10, 4)
    persister.write_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    with pytest.raises(KafkaError):
        await read(persister, 8, (4, 0), (5, 7))
    persister.write_error = ErrorCode.NONE
    assert (await read(persister, 20, (4, 0), (5, 7))).start_offset == 7


async def test_offsets_above_the_log_end_are_a_loss_in_the_first_leader_epoch_too() -> None:
    persister = persister_with(10, 0, range(12, 14))
    state = await read(persister, 9, (0, 0), (1, 7))
    assert (state.start_offset, state.batches) == (7, ())


async def test_offsets_that_were_changed_by_an_administrator_are_kept() -> None:
    persister = persister_with(30, 0)
    assert (await read(persister, 30, (0, 0), (3, 7))).start_offset == 30
    assert not persister.initialized
