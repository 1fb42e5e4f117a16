"""What can happen to a replica of the metadata quorum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tidelog.protocol.ids import LeaderEpoch
from tidelog.protocol.schema import ApiMessage


@dataclass(slots=True)
class Tick:
    """Time has passed: `Quorum.deadline_ms` is reached. At any other moment it does no harm."""


@dataclass(slots=True)
class Received:
    """A request of another node.

    `source` comes back in `Respond`, once for every request. `version` is of the request: what its
    answer cannot carry is left out; None stands for the newest. `listener_name` is where it came in.
    """

    source: object
    message: ApiMessage
    version: int | None = None
    listener_name: str | None = None


@dataclass(slots=True)
class Answered:
    """The answer to a `Send`; None when it failed or timed out. Every `Send` is answered once."""

    request_id: int
    message: ApiMessage | None


@dataclass(slots=True)
class Append:
    """Records for the log, from whoever leads: encoded values, all in one batch or none of them.

    Each of `records` is the value of one record, as it stands in the log (for metadata: frame, type,
    version and message). They get null keys. `epoch` is the one in which they were decided on; when
    this replica does not lead it any more they are refused. `context` comes back in `Appended` or
    `AppendRefused`.
    """

    records: list[bytes]
    epoch: LeaderEpoch
    context: object = None


@dataclass(slots=True)
class Persisted:
    """The `Persist` with this ticket is done."""

    ticket: int


@dataclass(slots=True)
class UpgradeVoters:
    """Write the static voters to the log: kraft.version 0 becomes 1 (the feature, as UpdateFeatures sets it).

    Answered like an `Append`. Refused until each voter has fetched and so told its directory id. A voter
    that has not fetched the record yet goes on knowing the others by id alone: until all have it, no
    voter may lose its directory, as with static voters.
    """

    epoch: LeaderEpoch
    context: object = None


@dataclass(slots=True)
class Resign:
    """Give up leadership and let the others elect (a graceful stop); a replica that follows does nothing."""


Event: TypeAlias = Tick | Received | Answered | Append | Persisted | UpgradeVoters | Resign
