"""The effects that a step of the metadata quorum returns, in the order in which they must be performed.

Rules for the caller that performs them:

1. No effect after a `Persist` is performed before that `Persist` is durable. Then the rest of the list is
   performed, and then the event `PersistCompleted` is passed to `step`. Events that arrive in the meantime
   wait: `step` is not called in between.
2. The caller may join the lists of consecutive steps, and then merge a later `Persist` into an earlier one
   (the later record, the higher `flush_to`), because data may be made durable early. It passes one
   `PersistCompleted` for each ticket. One fsync therefore serves many appends.
3. If a `Persist` fails, the process ends: no effect after it may ever be performed.
"""

from __future__ import annotations

from typing import TypeAlias

from tidelog.base.dataclass import dataclass
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

    def merge(self, record: QuorumRecord | None, flush_to: Offset | None) -> None:
        """Make also these durable; None changes nothing."""
        if record is not None:
            self.record = record
        if flush_to is not None:
            self.flush_to = flush_to


@dataclass(slots=True)
class Send:
    """Send a request to another node; one `ResponseReceived` with its id must follow.

    `endpoints` are all known endpoints of the node, in its own order. `to_node` is negative for a
    bootstrap server, of which only the address is known.
    """

    request_id: int
    to_node: BrokerId
    endpoints: tuple[Endpoint, ...]
    message: ApiMessage


@dataclass(slots=True)
class Respond:
    """Send the response to the `RequestReceived` with this `source`."""

    source: object
    message: ApiMessage


@dataclass(slots=True)
class RecordsAppended:
    """The records of an `Append` are in the log, but not yet committed."""

    context: object
    base_offset: Offset
    last_offset: Offset
    epoch: LeaderEpoch


@dataclass(slots=True)
class AppendRejected:
    """The records of an `Append` were not appended because of `reason`."""

    context: object
    reason: str


@dataclass(slots=True)
class LeaderChanged:
    """The epoch or its leader has changed; `leader_id` is None while the leader is unknown."""

    epoch: LeaderEpoch
    leader_id: BrokerId | None


@dataclass(slots=True)
class HighWatermark:
    """The log is committed up to `offset` (exclusive), so that its records up to there may be applied."""

    offset: Offset


@dataclass(slots=True)
class SnapshotLoaded:
    """A snapshot was fetched and the log now starts at its end: replace all applied state by its content."""

    snapshot_id: SnapshotId


Effect: TypeAlias = (
    Persist
    | Send
    | Respond
    | RecordsAppended
    | AppendRejected
    | LeaderChanged
    | HighWatermark
    | SnapshotLoaded
)
