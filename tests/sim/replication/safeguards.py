"""The replication rules that tests remove one at a time, to show that each is needed.

Each rule is one small method or function of the product; an ablation replaces it while a simulation or a
transcript runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from enum import Enum
from typing import Any, Final, TypeAlias

from tests.sim.ablation import Ablation, replace_rules
from tidelog.broker.partitions.partition import Partition
from tidelog.cluster.replication import follower_fetcher
from tidelog.cluster.replication.follower_aux import AuxBuilder
from tidelog.cluster.replication.follower_fetcher import FollowerFetcher
from tidelog.cluster.replication.follower_state import RestartAt
from tidelog.cluster.replication.follower_truncation import TruncationState, truncation_state
from tidelog.cluster.replication.leader_isr import IsrProposal
from tidelog.cluster.replication.leader_state import LeaderState
from tidelog.protocol.ids import NO_LEADER_EPOCH


class Safeguard(Enum):
    """The rules; each value has the source and the rule."""

    # The leader's
    EPOCH_START_BEFORE_JOINING = "KAFKA-7128: a follower joins the ISR only at the leader's epoch start"
    HIGH_WATERMARK_BEFORE_JOINING = "a follower joins the ISR only at the high watermark"
    FENCED_STAY_OUT = "KIP-841: a fenced or stopping broker does not join the ISR"
    BROKER_EPOCH_BEFORE_JOINING = "KIP-903: only the incarnation that fetched joins the ISR"
    STALE_INCARNATION_REFUSED = "KIP-903: a fetch of an earlier incarnation is refused"
    MIN_ISR_FOR_HIGH_WATERMARK = "KIP-966: the high watermark does not advance while the ISR is too small"
    EXPANSION_COUNTS_AT_ONCE = "KIP-497: a proposed ISR member limits the high watermark at once"
    SHRINK_COUNTS_WHEN_COMMITTED = "KIP-497: a removed ISR member limits the high watermark until the commit"
    LEADER_EPOCH_FENCING = "KIP-320: requests of another leader epoch are refused"
    EPOCH_NOTED_ON_ELECTION = "KIP-279: a leader assigns its epoch before it has any record"
    POSITIONS_OF_ONE_EPOCH = "a leader forgets the positions of followers if another leader was elected since"

    # The follower's
    TRUNCATION_BY_EPOCH = "KIP-101: a follower truncates by leader epoch, not to its high watermark"
    TRUNCATION_BEFORE_FETCHING = "KIP-279: a follower looks for divergence at every new leader epoch"
    EPOCHS_ITERATED = "KIP-279: a follower asks again while the leader returns epochs that it lacks"
    REMOTE_AUXILIARY_BUILT = (
        "KIP-405: a follower fetches epochs and producers of skipped records from the tier"
    )
    REMOTE_SEGMENT_COMPARED = "a follower starts after a remote segment only if the leader has all of it"
    REMOTE_CUT_REBUILDS = "a truncation below the local log start fetches the state from the tier again"


SafeguardSet: TypeAlias = frozenset[Safeguard]
"""The removed rules."""

NONE_DISABLED: Final[SafeguardSet] = frozenset()


def ablate(disabled: Iterable[Safeguard]) -> AbstractContextManager[None]:
    """Remove the rules in `disabled` for the length of the block."""
    return replace_rules(ablation for safeguard in disabled for ablation in _ABLATIONS[safeguard])


def _always(value: object) -> Callable[..., object]:
    return lambda *arguments: value


_propose_shrink = LeaderState.propose_shrink


def _shrink_at_once(leader: LeaderState, log_end_offset: int, now_ms: int) -> IsrProposal | None:
    proposal = _propose_shrink(leader, log_end_offset, now_ms)
    if proposal is not None:
        leader.maximal_isr = frozenset(member.broker_id for member in proposal.members)
        leader._refresh()
    return proposal


def _restart_without_remote_past(
    builder: AuxBuilder, partition: Any, build: Any, offset: int, epoch: int, now_ms: int
) -> RestartAt:
    return RestartAt(partition, offset, "without the auxiliary state in the tier")


def _truncate_once(log: Any, leader_epoch: int, leader_end_offset: int) -> TruncationState:
    """Truncate as before KIP-279: to the leader's end offset, whatever its epoch."""
    return truncation_state(log, NO_LEADER_EPOCH, leader_end_offset)


_NEVER_COMPARES: Final = Ablation(FollowerFetcher, "_compares_epochs", property(_always(False)))
_ABLATIONS: Final[dict[Safeguard, tuple[Ablation, ...]]] = {
    Safeguard.EPOCH_START_BEFORE_JOINING: (Ablation(LeaderState, "_has_epoch_start", _always(True)),),
    Safeguard.HIGH_WATERMARK_BEFORE_JOINING: (Ablation(LeaderState, "_has_committed", _always(True)),),
    Safeguard.FENCED_STAY_OUT: (Ablation(LeaderState, "_is_broker_active", _always(True)),),
    Safeguard.BROKER_EPOCH_BEFORE_JOINING: (
        Ablation(LeaderState, "_is_incarnation", _always(True)),
        Ablation(LeaderState, "_epoch_of", _always(-1)),
    ),
    Safeguard.STALE_INCARNATION_REFUSED: (Ablation(LeaderState, "_check_incarnation", _always(None)),),
    Safeguard.MIN_ISR_FOR_HIGH_WATERMARK: (Ablation(LeaderState, "_can_commit", _always(True)),),
    Safeguard.EXPANSION_COUNTS_AT_ONCE: (
        Ablation(LeaderState, "_is_about_to_join", _always(False)),
        Ablation(LeaderState, "_add_to_maximal_isr", _always(None)),
    ),
    Safeguard.SHRINK_COUNTS_WHEN_COMMITTED: (Ablation(LeaderState, "propose_shrink", _shrink_at_once),),
    Safeguard.LEADER_EPOCH_FENCING: (Ablation(Partition, "check_leader_epoch", _always(None)),),
    Safeguard.EPOCH_NOTED_ON_ELECTION: (Ablation(Partition, "_note_leader_epoch", _always(None)),),
    Safeguard.POSITIONS_OF_ONE_EPOCH: (Ablation(LeaderState, "_had_other_leader", _always(False)),),
    Safeguard.TRUNCATION_BY_EPOCH: (
        Ablation(FollowerFetcher, "_has_epochs", _always(False)),
        _NEVER_COMPARES,
    ),
    Safeguard.TRUNCATION_BEFORE_FETCHING: (
        Ablation(FollowerFetcher, "_find_divergence", lambda fetcher, partition: []),
        _NEVER_COMPARES,
    ),
    Safeguard.EPOCHS_ITERATED: (Ablation(follower_fetcher, "truncation_state", _truncate_once),),
    Safeguard.REMOTE_AUXILIARY_BUILT: (
        Ablation(AuxBuilder, "_request_epoch_end", _restart_without_remote_past),
    ),
    Safeguard.REMOTE_SEGMENT_COMPARED: (Ablation(AuxBuilder, "_is_whole_segment_at_leader", _always(True)),),
    Safeguard.REMOTE_CUT_REBUILDS: (Ablation(FollowerFetcher, "_needs_remote_state", _always(False)),),
}
