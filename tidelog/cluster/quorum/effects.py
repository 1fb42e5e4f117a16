"""What a replica of the metadata quorum wants done, in the order in which it stands in the list.

Rules for whoever performs them:

1. Nothing behind a `Persist` is done before it is durable. When it is, the rest of the list is done
   and then `Persisted` is told. Events that come in meanwhile wait: `step` is not called between.
2. The lists of consecutive steps may be joined, and then a later `Persist` merged into an earlier one
   (the later record, the higher `flush_to`): to have something durable early does no harm. Tell
   `Persisted` for each ticket. So one fsync serves many appends.
3. When durability fails, the process ends: nothing behind that `Persist` may be done, ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tidelog.cluster.quorum.log import SnapshotId
from tidelog.cluster.quorum.quorum_record import QuorumRecord
from tidelog.cluster.quorum.voter_set import Endpoint
from tidelog.protocol.ids import BrokerId, LeaderEpoch, Offset
from tidelog.protocol.schema import ApiMessage


@dataclass(slots=True)
class Persist:
    """Make durable: the quorum record, unless None, and the log up to `flush_to`, unless None."""

    ticket: int
    record: QuorumRecord | None
    flush_to: Offset | None


@dataclass(slots=True)
class Send:
    """A request to another node; `Answered` with its id is expected.

    `endpoints`: all that are known of the node, in its order; `to_node` is negative for a bootstrap
    server, of which only the address is known.
    """

    request_id: int
    to_node: BrokerId
    endpoints: tuple[Endpoint, ...]
    message: ApiMessage


@dataclass(slots=True)
class Respond:
    """The answer to the request `Received` from `source`."""

    source: object
    message: ApiMessage


@dataclass(slots=True)
class Appended:
    """The records of an `Append` are in the log (not yet committed)."""

    context: object
    base_offset: Offset
    last_offset: Offset
    epoch: LeaderEpoch


@dataclass(slots=True)
class AppendRefused:
    """The records of an `Append` were not appended: not the leader of that epoch, or they are too many."""

    context: object
    reason: str


@dataclass(slots=True)
class LeaderChanged:
    """The epoch or its leader is another one."""

    epoch: LeaderEpoch
    leader_id: BrokerId | None


@dataclass(slots=True)
class HighWatermark:
    """The log is committed up to `offset` and may be applied so far."""

    offset: Offset


@dataclass(slots=True)
class SnapshotLoaded:
    """A snapshot was fetched and is now where the log begins: replace all state by it."""

    snapshot_id: SnapshotId


Effect: TypeAlias = (
    Persist | Send | Respond | Appended | AppendRefused | LeaderChanged | HighWatermark | SnapshotLoaded
)
