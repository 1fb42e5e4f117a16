"""What a replica must not forget: the content of the file `quorum-state`."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from tidelog.protocol.ids import BrokerId, LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumRecord:
    """The epoch a replica is in, who leads it if that is known, and for whom the replica voted.

    Invariant: `voted_directory_id` is None when `voted_id` is.
    Source: QuorumStateData.json of Apache Kafka; versions 0 (without directory id) and 1.
    """

    leader_epoch: LeaderEpoch
    leader_id: BrokerId | None = None
    voted_id: BrokerId | None = None
    voted_directory_id: UUID | None = None
