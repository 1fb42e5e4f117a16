"""The safeguards that tests remove one at a time, to show that the simulation of whole clusters needs each.

Each safeguard has a plan: the faults that it protects against, at a high rate.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Final

from tests.sim.ablation import Ablation, replace_rules
from tests.sim.cluster.plan import FaultRates, Plan
from tidelog.broker.partitions.delayed_produce import PartitionAppend
from tidelog.broker.partitions.partition import Partition
from tidelog.cluster.quorum.rules import QuorumRules
from tidelog.local_cluster.layout import QUICK_TIMEOUTS
from tidelog.storage.log.durability import Durability
from tidelog.storage.producers.producer_entry import ProducerEntry


class Safeguard(Enum):
    """The safeguards; each value has the source and the rule."""

    REPEATED_BATCHES = "KIP-98: a batch with sequences that were already appended is not appended again"
    READS_UP_TO_HIGH_WATERMARK = "consumers read no record above the high watermark"
    ACKS_ALL_WAITS = "a produce with acks=all waits until all in-sync replicas have the records"
    METADATA_SYNCED = "a controller acknowledges metadata after their fsync"
    FLUSH_BEFORE_RESPONSE = "with log.flush.interval.messages=1 a response waits for the fsync"


@dataclass(frozen=True, slots=True)
class Removal:
    """How a safeguard is removed, and the plan in which this must be noticed."""

    ablations: tuple[Ablation, ...]
    plan: Plan


def ablate(safeguard: Safeguard) -> AbstractContextManager[None]:
    """Remove a safeguard for the length of the block."""
    return replace_rules(REMOVALS[safeguard].ablations)


def _always(value: object) -> Callable[..., object]:
    return lambda *arguments: value


def _plan(faults: FaultRates, *, syncs_every_append: bool = False) -> Plan:
    config = {**QUICK_TIMEOUTS, **({"log.flush.interval.messages": "1"} if syncs_every_append else {})}
    return Plan(
        safety_s=15.0, partitions=3, pause_of_producers_s=0.02, config=config, faults=faults,
        syncs_every_append=syncs_every_append,
    )  # fmt: skip


_RESETS: Final = _plan(FaultRates(reset=0.1))
_CUTS: Final = _plan(FaultRates(cut=2.0, one_way_cut=4.0))
_POWER: Final = _plan(FaultRates(power=1.0, cut=4.0), syncs_every_append=True)

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
}
