"""A change of the ISR that a leader asks the controller for, and what the answer does to it.

    committed --propose--> pending --answered with the new ISR-----------------> committed, new epoch
                           pending --INELIGIBLE_REPLICA, OPERATION_NOT_ATTEMPTED-> committed as before
                           pending --FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION ...> pending, until the
                                     metadata tells; it is not known whether the change was made
                           pending --any other error, no answer--> pending, asked again

Source: KIP-497, kafka.cluster.Partition of Apache Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import BrokerId, LeaderEpoch


class IsrMember(NamedTuple):
    """A broker of a proposed ISR; epoch -1 when it has not fetched from this leader yet (KIP-903)."""

    broker_id: BrokerId
    broker_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrProposal:
    """One change that is asked for; compared by identity, as each is answered once."""

    members: tuple[IsrMember, ...]
    added: BrokerId | None
    """Who joins; None for a shrink."""
    removed: frozenset[BrokerId]
    leader_epoch: LeaderEpoch
    partition_epoch: int

    @property
    def is_expansion(self) -> bool:
        """Whether somebody joins."""
        return self.added is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrCommitted:
    """The controller's answer: the partition as it is now."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: int
    isr: tuple[BrokerId, ...]


class IsrOutcome(Enum):
    """What became of a proposal."""

    COMMITTED = "the ISR is as asked for"
    STALE = "the partition has moved on; the answer says nothing"
    REJECTED = "it was certainly not made; the ISR is as before"
    UNKNOWN = "it may have been made; the metadata will tell"
    RETRY = "to be asked again"


# The controller vouches that the partition epoch was right and that nothing was changed.
CERTAINLY_NOT_MADE: Final = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
METADATA_WILL_TELL: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
