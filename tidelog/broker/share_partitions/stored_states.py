"""Reads the state of a share partition for a new leader, without the records that its log has lost.

After an unclean election, other records get the offsets of the lost ones. A write cannot remove the stored
states of the lost records: where states overlap, the coordinator keeps the one with the higher delivery
count. The state is therefore initialized again with its own state epoch, which removes all ranges in one
step, and the ranges below the loss are written afterwards. If the second step fails, records are delivered
again.

The states were stored by the leader of the leader epoch in the summary, or before it, so that the loss
begins where this epoch ends in the log. Leader epoch 0 may also be that of offsets which an administrator has
changed. Then a loss is detected only while the stored offsets are above the end of the log.

I/O: the persister. Apache Kafka has no such rule.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

from tidelog.broker.coordinators.share.persister import (
    UNINITIALIZED_START_OFFSET,
    InitialState,
    SharePartitionKey,
    SharePersister,
    ShareStateBatch,
    StateRead,
    StateResult,
    StateSummary,
    StateWrite,
    StoredState,
)
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import LeaderEpoch, Offset
from tidelog.storage.leader_epoch import NO_OFFSET, LeaderEpochCache

logger = logging.getLogger(__name__)

_NO_EPOCH: Final = -1
_FINAL_STATES: Final = (2, 4)
"""Acknowledged and archived."""


async def read_state(
    persister: SharePersister,
    key: SharePartitionKey,
    leader_epoch: LeaderEpoch,
    epochs: LeaderEpochCache,
    log_end_offset: Offset,
) -> StoredState:
    """Return the state as the leader in `leader_epoch`; replace it first if the log has lost records.

    The coordinator receives the leader epoch only afterwards: after a failure, the loss is detected again.
    Errors: KafkaError of the share coordinator.
    """
    read = StateRead(share_partition=key, leader_epoch=leader_epoch)
    (summary,) = await persister.read_summary((read,))
    _require_success(summary)
    end_offset = _end_offset_of(summary.leader_epoch, leader_epoch, epochs, log_end_offset)
    (before,) = await persister.read((replace(read, leader_epoch=_NO_EPOCH),))
    _require_success(before)
    if (kept := without_lost_records(before, end_offset, log_end_offset, epochs)) is not None:
        logger.warning(
            "Share partition %s: the log has lost records; states from offset %d on are removed",
            key, min(end_offset, log_end_offset),
        )  # fmt: skip
        await _replace(persister, key, leader_epoch, kept)
    (stored,) = await persister.read((read,))
    _require_success(stored)
    return stored


def without_lost_records(
    stored: StoredState, end_offset: Offset, log_end_offset: Offset, epochs: LeaderEpochCache
) -> StoredState | None:
    """Return the state without offsets that the log has lost; None if it has none of them.

    `end_offset` is the highest end of the records whose states can be stored, as far as it is known.
    """
    if stored.start_offset == UNINITIALIZED_START_OFFSET:
        return None
    stored_end = max((stored.start_offset, *(batch.last_offset + 1 for batch in stored.batches)))
    if stored_end <= end_offset:
        return None
    if end_offset == log_end_offset and epochs.latest_entry is not None:
        # Records may have been appended since the election.
        end_offset = min(end_offset, epochs.latest_entry.start_offset)
    batches = tuple(
        replace(batch, last_offset=min(batch.last_offset, end_offset - 1))
        for batch in stored.batches
        if batch.first_offset < end_offset
    )
    return replace(stored, start_offset=min(stored.start_offset, end_offset), batches=batches)


def _end_offset_of(
    stored_epoch: LeaderEpoch, leader_epoch: LeaderEpoch, epochs: LeaderEpochCache, log_end_offset: Offset
) -> Offset:
    """Return where the records end whose states a leader in `stored_epoch` can have stored."""
    if not 0 < stored_epoch < leader_epoch:
        return log_end_offset
    end_offset = epochs.end_offset_for(stored_epoch, log_end_offset).end_offset
    return log_end_offset if end_offset == NO_OFFSET else min(end_offset, log_end_offset)


async def _replace(
    persister: SharePersister, key: SharePartitionKey, leader_epoch: LeaderEpoch, state: StoredState
) -> None:
    """Replace the stored state by `state`."""
    initial = InitialState(
        share_partition=key, state_epoch=state.state_epoch, start_offset=state.start_offset
    )
    (result,) = await persister.initialize((initial,))
    _require_success(result)
    if not state.batches:
        return
    write = StateWrite(
        share_partition=key,
        state_epoch=state.state_epoch,
        leader_epoch=leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=sum(map(_complete_count, state.batches)),
        batches=state.batches,
    )
    (result,) = await persister.write((write,))
    _require_success(result)


def _complete_count(batch: ShareStateBatch) -> int:
    if batch.delivery_state not in _FINAL_STATES:
        return 0
    return batch.last_offset - batch.first_offset + 1


def _require_success(result: StoredState | StateSummary | StateResult) -> None:
    if result.error_code:
        raise KafkaError(result.error_code, result.error_message or "")
