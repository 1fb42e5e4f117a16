"""The content of the file `quorum-state`."""

from __future__ import annotations

from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import BrokerId, LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumRecord:
    """The epoch of a replica, the leader of that epoch if known, and the candidate it voted for.

    Invariant: `voted_directory_id` is None if `voted_id` is None.
    Source: QuorumStateData.json of Apache Kafka; versions 0 (without directory id) and 1.
    """

    leader_epoch: LeaderEpoch
    leader_id: BrokerId | None = None
    voted_id: BrokerId | None = None
    voted_directory_id: UUID | None = None
