"""The rules of replication that tests switch off one by one, to see that the harness misses them.

Production never hands any in: every `disabled` defaults to the empty set.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, TypeAlias


class Safeguard(Enum):
    """One rule each; the value says where it comes from."""

    # The leader's
    EPOCH_START_BEFORE_JOINING = "KAFKA-7128: a follower joins the ISR only at the leader's epoch start"
    HIGH_WATERMARK_BEFORE_JOINING = "a follower joins the ISR only at the high watermark"
    FENCED_STAY_OUT = "KIP-841: a fenced or stopping broker does not join the ISR"
    BROKER_EPOCH_BEFORE_JOINING = "KIP-903: only the incarnation that fetched joins the ISR"
    STALE_INCARNATION_REFUSED = "KIP-903: a fetch of an earlier incarnation is refused"
    MIN_ISR_FOR_HIGH_WATERMARK = "KIP-966: the high watermark rests while the ISR is too small"
    EXPANSION_COUNTS_AT_ONCE = "KIP-497: who is about to join holds the high watermark already"
    SHRINK_COUNTS_WHEN_COMMITTED = "KIP-497: who is about to leave holds the high watermark still"
    LEADER_EPOCH_FENCING = "KIP-320: requests of another leader epoch are refused"
    EPOCH_NOTED_ON_ELECTION = "KIP-279: a leader notes its epoch before it has any record"
    POSITIONS_OF_ONE_EPOCH = "what a leader knows of followers ends with the epoch, when another led since"

    # The follower's
    TRUNCATION_BY_EPOCH = "KIP-101: a follower cuts by leader epoch, not to its high watermark"
    TRUNCATION_BEFORE_FETCHING = "KIP-279: a follower looks for divergence at every new leader epoch"
    EPOCHS_ITERATED = "KIP-279: a follower asks again while the leader names epochs it does not know"
    REMOTE_AUXILIARY_BUILT = "KIP-405: a follower takes epochs and producers of what it skips from the tier"
    REMOTE_SEGMENT_COMPARED = "a follower begins behind a remote segment only if the leader has all of it"
    REMOTE_CUT_REBUILDS = "a cut below what is local takes the past from the tier anew"


SafeguardSet: TypeAlias = frozenset[Safeguard]
"""Those that are switched off."""

NONE_DISABLED: Final[SafeguardSet] = frozenset()
