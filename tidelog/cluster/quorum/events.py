"""The events that a replica of the metadata quorum handles."""

from __future__ import annotations

from typing import TypeAlias

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import LeaderEpoch
from tidelog.protocol.schema import ApiMessage


@dataclass(slots=True)
class Tick:
    """The time `Quorum.deadline_ms` has been reached. An earlier tick has no effect."""


@dataclass(slots=True)
class RequestReceived:
    """A request of another node or of a client.

    The quorum returns exactly one `Respond` with the same `source`. `version` is the request's API
    version: the response omits fields that this version lacks. None means the newest version.
    `listener_name` is the listener that received the request.
    """

    source: object
    message: ApiMessage
    version: int | None = None
    listener_name: str | None = None


@dataclass(slots=True)
class ResponseReceived:
    """The end of a `Send`: its response, or None if it failed or timed out. There is one for each `Send`."""

    request_id: int
    message: ApiMessage | None


@dataclass(slots=True)
class Append:
    """Records to append if this replica is the leader: all in one batch, or none.

    Each of `records` is the encoded value of one record with a null key. For metadata it contains frame,
    type, version and message. `epoch` is the epoch in which the records were decided: they are rejected
    if this replica is no longer its leader. `context` is returned in `RecordsAppended` or `AppendRejected`.
    """

    records: list[bytes]
    epoch: LeaderEpoch
    context: object = None


@dataclass(slots=True)
class PersistCompleted:
    """The `Persist` with this ticket is durable."""

    ticket: int


@dataclass(slots=True)
class UpgradeVoters:
    """Write the static voters to the log, which raises kraft.version from 0 to 1 (UpdateFeatures).

    The result is `RecordsAppended` or `AppendRejected`. The upgrade is rejected until each voter has
    fetched and so reported its directory id. A voter that has not fetched the record yet still identifies
    the other voters by id only. Until all voters have the record, no voter may lose its directory; the
    same holds for static voters.
    """

    epoch: LeaderEpoch
    context: object = None


@dataclass(slots=True)
class Resign:
    """End this replica's leadership, so that the other voters elect a leader; ignored by a follower."""


Event: TypeAlias = (
    Tick | RequestReceived | ResponseReceived | Append | PersistCompleted | UpgradeVoters | Resign
)
