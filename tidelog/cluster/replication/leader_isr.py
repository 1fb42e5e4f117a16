"""A change of the ISR that a leader requests from the controller, and the outcomes of the request.

    committed --propose--> pending --response with the new ISR-----------------> committed, new epoch
                           pending --INELIGIBLE_REPLICA, OPERATION_NOT_ATTEMPTED-> committed as before
                           pending --FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION ...> pending, until the
                                     metadata shows whether the ISR was changed
                           pending --any other error, no response--> pending, sent again

Source: KIP-497, kafka.cluster.Partition of Apache Kafka.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from tidelog.base.dataclass import dataclass
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import BrokerId, LeaderEpoch


class IsrMember(NamedTuple):
    """A broker of a proposed ISR; epoch -1 if it has not fetched from this leader yet (KIP-903)."""

    broker_id: BrokerId
    broker_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrProposal:
    """One requested change; each has one response."""

    members: tuple[IsrMember, ...]
    added: BrokerId | None
    """The broker that joins; None for a shrink."""
    removed: frozenset[BrokerId]
    leader_epoch: LeaderEpoch
    partition_epoch: int

    @property
    def is_expansion(self) -> bool:
        """Whether a broker joins."""
        return self.added is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedIsr:
    """The controller's response: the current epochs and ISR of the partition."""

    leader_epoch: LeaderEpoch
    partition_epoch: int
    isr: tuple[BrokerId, ...]


class IsrOutcome(Enum):
    """The outcome of a proposal."""

    COMMITTED = "the ISR is as requested"
    STALE = "the partition has changed; the response has no effect"
    REJECTED = "the ISR was not changed"
    UNKNOWN = "the ISR may have been changed; the metadata will show it"
    RETRY = "the proposal must be sent again"


# These errors guarantee that the partition epoch was correct and the ISR was not changed.
REJECTION_ERRORS: Final = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
UNKNOWN_OUTCOME_ERRORS: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
