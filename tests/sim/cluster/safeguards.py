"""The safeguards that tests remove one at a time, to show that the simulation of whole clusters needs each.

Each safeguard has a plan: the faults that it protects against, at a high rate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

from tests.sim.ablation import Ablation, replace_rules
from tests.sim.cluster.plan import NO_FAULTS, FaultRates, Plan
from tests.sim.cluster.workloads.settings import SETTINGS
from tests.sim.cluster.workloads.tier_invariants import FINISHED
from tidelog.broker.controller.handlers import allocate_producer_ids
from tidelog.broker.coordinators.shared.outcome import Writes
from tidelog.broker.coordinators.shared.shard import Shard
from tidelog.broker.coordinators.transactions.timeouts import TransactionTimeouts
from tidelog.broker.partitions.delayed_produce import PartitionAppend
from tidelog.broker.partitions.partition import FetchIsolation, Partition
from tidelog.broker.raft import state_file
from tidelog.broker.replication.fetcher import ReplicaFetcher
from tidelog.clients.consumer.fetched_data import FetchedData
from tidelog.cluster.controller import update_features
from tidelog.cluster.controller.producer_ids import BLOCK_SIZE, ProducerIdBlock
from tidelog.cluster.controller.result import ControllerResult
from tidelog.cluster.image import MetadataImage
from tidelog.cluster.quorum.rules import QuorumRules
from tidelog.cluster.replication.follower_fetcher import FollowerFetcher
from tidelog.local_cluster.layout import QUICK_TIMEOUTS
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import BrokerId, Offset
from tidelog.remote.copying import task as copy_task
from tidelog.remote.copying.plan import segments_to_copy
from tidelog.remote.copying.segment_copy import SegmentCopy
from tidelog.remote.expiry import plan as expiry_plan
from tidelog.remote.expiry.plan import Reason
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.ports.storage_manager import StoreUnavailable
from tidelog.remote.tasks.local_segments import LocalSegment
from tidelog.storage.disk import checkpoints
from tidelog.storage.disk.errors import StorageFailure
from tidelog.storage.disk.files import Buffer, FileSystem
from tidelog.storage.log.durability import Durability
from tidelog.storage.log.flush import FlushPlan
from tidelog.storage.log.remote_border import RemoteBorder
from tidelog.storage.log.tiered_retention import RemoteBounds
from tidelog.storage.producers.producer_entry import ProducerEntry
from tidelog.storage.recovery import log_loader, recovery
from tidelog.storage.segment import batch_scan


class Safeguard(Enum):
    """The safeguards; each value has the source and the rule."""

    REPEATED_BATCHES = "KIP-98: a batch with sequences that were already appended is not appended again"
    READS_UP_TO_HIGH_WATERMARK = "consumers read no record above the high watermark"
    ACKS_ALL_WAITS = "a produce with acks=all waits until all in-sync replicas have the records"
    METADATA_SYNCED = "a controller acknowledges metadata after their fsync"
    FLUSH_BEFORE_RESPONSE = "with log.flush.interval.messages=1 a response waits for the fsync"
    FOLLOWER_FLUSHES = "with log.flush.interval.messages=1 a follower reports its end after the fsync"
    NAMES_SYNCED = "the directory of a new file is synced, so that its name survives a loss of power"
    CHECKPOINTS_REPLACED = "KAFKA-16541: a checkpoint is synced before it replaces the previous one"
    FAILED_FSYNC_IS_FINAL = "after a failed fsync nothing in the directory is acknowledged"
    PRODUCERS_RESTORED = "a start restores the state of producers from the log"
    UNIQUE_PRODUCER_IDS = "KIP-730: the controller stores each block of producer ids before a broker uses it"
    READS_UP_TO_LAST_STABLE_OFFSET = "KIP-98: with read_committed, no record of an open transaction is read"
    ABORTED_RECORDS_SKIPPED = (
        "KIP-98: a consumer with read_committed omits the records of aborted transactions"
    )
    TRANSACTIONS_TIME_OUT = "the coordinator aborts a transaction whose producer has disappeared"
    LOCAL_SEGMENTS_KEPT_UNTIL_COPIED = "KIP-405: only segments in remote storage are deleted locally"
    COPIES_BELOW_LAST_STABLE_OFFSET = "KIP-405: no record is copied that may still be truncated or aborted"
    OBJECTS_BEFORE_FINISHED = "KIP-405: a copy is finished only after the store has confirmed its objects"
    DIVERGENCE_TRUNCATED = "KIP-279: a follower truncates what differs from the log of a new leader"
    CHECKSUMS_VERIFIED = "a start verifies the checksums of all batches that may not have been flushed"
    COORDINATORS_WAIT = "a coordinator acknowledges a command when all in-sync replicas have its records"
    RECORDS_KEPT_BY_DOWNGRADES = "KIP-778: metadata.version is lowered only if no record format changes"
    UNFINISHED_COPIES_DELETED = "KIP-405: the leader deletes copies and deletions that have not ended"


@dataclass(frozen=True, slots=True)
class Removal:
    """How a safeguard is removed, and the plan in which this must be noticed."""

    ablations: tuple[Ablation, ...]
    plan: Plan
    first_seed: int = 0
    """Only saves time: a search from seed 0 also finds the violation."""


def ablate(safeguard: Safeguard) -> AbstractContextManager[None]:
    """Remove a safeguard for the length of the block."""
    return replace_rules(REMOVALS[safeguard].ablations)


def _always(value: object) -> Callable[..., object]:
    return lambda *arguments: value


def _upper_bound_without_transactions(partition: Partition, isolation: FetchIsolation) -> Offset:
    log = partition.log
    return log.log_end_offset if isolation is FetchIsolation.LOG_END else log.high_watermark


def _allocate_unstored(
    image: MetadataImage, broker: BrokerId, broker_epoch: int
) -> ControllerResult[ProducerIdBlock]:
    return ControllerResult((), ProducerIdBlock(image.next_producer_id, BLOCK_SIZE))


def _overwrite(fs: FileSystem, path: str, data: Buffer) -> None:
    file = fs.open(path, create=True)
    file.truncate(0)
    file.append(data)
    file.close()


_run_flush = FlushPlan.run


def _ignore_failed_fsync(plan: FlushPlan) -> None:
    with suppress(StorageFailure):
        _run_flush(plan)


def _bounds_of_log_end(border: RemoteBorder) -> RemoteBounds:
    offsets = border._offsets
    return RemoteBounds(offsets.local_log_start_offset, offsets.log_end_offset - 1, True)


def _all_sealed_segments(segments: Sequence[LocalSegment], **limits: Any) -> list[LocalSegment]:
    return segments_to_copy(segments, **{**limits, "last_stable_offset": 1 << 62})


_store = SegmentCopy.store


async def _ignore_failed_store(copy: SegmentCopy) -> None:
    with suppress(StoreUnavailable):
        await _store(copy)


_reason = expiry_plan._reason_besides_retention


def _reason_of_finished_segments(segment: RemoteLogSegmentMetadata, *arguments: Any) -> Reason | None:
    return _reason(segment, *arguments) if segment.state is FINISHED else None


_append_and_replay = Shard._append_and_replay


def _complete_before_commit(
    shard: Shard[Any], append: Any, replay: Any, count: int, writes: Writes[Any], on_completed: Any
) -> ErrorCode:
    error = _append_and_replay(shard, append, replay, count, writes, None)
    if error is ErrorCode.NONE and on_completed is not None:
        on_completed(error)
    return error


async def _do_not_flush(fetcher: ReplicaFetcher, actions: list[object]) -> None:
    pass


def _plan(faults: FaultRates, *, syncs_every_append: bool = False) -> Plan:
    config = {**QUICK_TIMEOUTS, **({"log.flush.interval.messages": "1"} if syncs_every_append else {})}
    return Plan(
        safety_s=15.0, partitions=3, pause_of_producers_s=0.02, config=config, faults=faults,
        syncs_every_append=syncs_every_append,
    )  # fmt: skip


_RESETS: Final = _plan(FaultRates(reset=0.1))
_CUTS: Final = _plan(FaultRates(cut=2.0, one_way_cut=4.0))
_POWER: Final = _plan(FaultRates(power=1.0, cut=4.0), syncs_every_append=True)
_FAILED_FSYNCS: Final = _plan(FaultRates(failed_fsync=1.0), syncs_every_append=True)
_DAMAGE: Final = _plan(FaultRates(damage=1.0))
_KILLS_AND_RESETS: Final = _plan(FaultRates(kill=1.5, reset=0.1))
_STORE_FAULTS: Final = replace(
    _plan(FaultRates(store=2.0, kill=5.0)),
    pause_of_producers_s=0.5,
    workloads=("tiering",),
    config={**QUICK_TIMEOUTS, **SETTINGS["tiering"]},
)
_STORE_KILLS: Final = replace(_STORE_FAULTS, faults=FaultRates(store_kill=1.5))
_TIER_AND_CUTS: Final = replace(
    _STORE_FAULTS,
    faults=FaultRates(cut=3.0, one_way_cut=2.0),
    config={**_STORE_FAULTS.config, "rlmm.config.remote.log.metadata.topic.replication.factor": "1"},
)
"""With more replicas, a node that is cut off could not record the start of a copy."""
_TRANSACTIONS: Final = replace(
    _plan(FaultRates(cut=2.0, one_way_cut=4.0, kill=5.0)), transactional_producers=2, partitions=2
)

REMOVALS: Final[dict[Safeguard, Removal]] = {
    Safeguard.REPEATED_BATCHES: Removal(
        (
            Ablation(ProducerEntry, "find_duplicate", _always(None)),
            Ablation(ProducerEntry, "check_sequence", _always(None)),
        ),
        _RESETS,
    ),
    Safeguard.READS_UP_TO_HIGH_WATERMARK: Removal(
        (Ablation(Partition, "upper_bound", lambda partition, isolation: partition.log.log_end_offset),),
        _CUTS,
    ),
    Safeguard.ACKS_ALL_WAITS: Removal(
        (
            Ablation(PartitionAppend, "is_committed", property(_always(True))),
            Ablation(Partition, "commit_outcome", lambda partition, offset: 0),
        ),
        _CUTS,
    ),
    Safeguard.METADATA_SYNCED: Removal(
        (
            Ablation(QuorumRules, "persist_log", _always(-1)),
            Ablation(
                QuorumRules, "acknowledged_end", lambda rules, flushed_to, log_end_offset: log_end_offset
            ),
        ),
        _POWER,
    ),
    Safeguard.FLUSH_BEFORE_RESPONSE: Removal(
        (Ablation(Durability, "must_flush", property(_always(False))),), _POWER
    ),
    Safeguard.FOLLOWER_FLUSHES: Removal(
        (Ablation(ReplicaFetcher, "_flush_if_required", _do_not_flush),), _POWER
    ),
    Safeguard.NAMES_SYNCED: Removal(
        (Ablation(FlushPlan, "_sync_directory", _always(None)),),
        replace(_POWER, topic_config={"internal.segment.bytes": "4000"}),
    ),
    Safeguard.CHECKPOINTS_REPLACED: Removal(
        (
            Ablation(checkpoints, "write_atomically", _overwrite),
            Ablation(state_file, "write_atomically", _overwrite),
        ),
        _POWER,
    ),
    Safeguard.FAILED_FSYNC_IS_FINAL: Removal(
        (Ablation(FlushPlan, "run", _ignore_failed_fsync),), _FAILED_FSYNCS
    ),
    Safeguard.PRODUCERS_RESTORED: Removal(
        (
            Ablation(log_loader, "replay_producers", _always(None)),
            Ablation(log_loader, "replay_producer", _always(None)),
            Ablation(recovery, "replay_producer", _always(None)),
        ),
        _KILLS_AND_RESETS,
    ),
    Safeguard.UNIQUE_PRODUCER_IDS: Removal(
        (Ablation(allocate_producer_ids, "allocate_producer_ids", _allocate_unstored),), _RESETS
    ),
    Safeguard.READS_UP_TO_LAST_STABLE_OFFSET: Removal(
        (Ablation(Partition, "upper_bound", _upper_bound_without_transactions),), _TRANSACTIONS
    ),
    Safeguard.ABORTED_RECORDS_SKIPPED: Removal(
        (Ablation(FetchedData, "_is_aborted", _always(False)),), _TRANSACTIONS
    ),
    Safeguard.TRANSACTIONS_TIME_OUT: Removal(
        (Ablation(TransactionTimeouts, "aborts_of_timed_out", _always([])),), _TRANSACTIONS
    ),
    Safeguard.LOCAL_SEGMENTS_KEPT_UNTIL_COPIED: Removal(
        (Ablation(RemoteBorder, "bounds", property(_bounds_of_log_end)),), _STORE_FAULTS
    ),
    Safeguard.COPIES_BELOW_LAST_STABLE_OFFSET: Removal(
        (Ablation(copy_task, "segments_to_copy", _all_sealed_segments),), _TIER_AND_CUTS
    ),
    Safeguard.OBJECTS_BEFORE_FINISHED: Removal(
        (Ablation(SegmentCopy, "store", _ignore_failed_store),), _STORE_FAULTS
    ),
    Safeguard.DIVERGENCE_TRUNCATED: Removal(
        (
            Ablation(FollowerFetcher, "_find_divergence", _always([])),
            Ablation(FollowerFetcher, "_compares_epochs", property(_always(False))),
        ),
        _CUTS,
        first_seed=2,
    ),
    Safeguard.CHECKSUMS_VERIFIED: Removal(
        (Ablation(batch_scan, "crc_is_valid", _always(True)),), _DAMAGE, first_seed=1
    ),
    Safeguard.COORDINATORS_WAIT: Removal(
        (Ablation(Shard, "_append_and_replay", _complete_before_commit),), _TRANSACTIONS, first_seed=3
    ),
    Safeguard.RECORDS_KEPT_BY_DOWNGRADES: Removal(
        (Ablation(update_features, "_check_metadata_version", _always(None)),),
        replace(_plan(NO_FAULTS), workloads=("features",), pause_of_producers_s=0.5, safety_s=40.0),
    ),
    Safeguard.UNFINISHED_COPIES_DELETED: Removal(
        (Ablation(expiry_plan, "_reason_besides_retention", _reason_of_finished_segments),), _STORE_KILLS
    ),
}
