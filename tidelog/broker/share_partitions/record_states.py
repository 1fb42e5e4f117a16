"""The delivery states of a record in a share group, and how acknowledgements change them.

    AVAILABLE     -> ACQUIRED                        a member fetches the record
    AVAILABLE     -> ARCHIVED                        the record no longer exists
    ACQUIRED      -> ACKNOWLEDGED                    accept
    ACQUIRED      -> AVAILABLE                       release, end of the session, end of the lock
    ACQUIRED      -> ARCHIVED                        reject, or instead of AVAILABLE after the last delivery

ACKNOWLEDGED and ARCHIVED are final: the record is not delivered again. Only the rollback of a change that
could not be stored leads back to ACQUIRED.

Source: KIP-932; RecordState of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from tidelog.protocol.share_groups.acknowledge_type import AcknowledgeType


class RecordState(IntEnum):
    """The delivery state of a record; the values are those of the stored state."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_final(self) -> bool:
        """Whether the record is not delivered again."""
        return self >= RecordState.ACKNOWLEDGED


TRANSITIONS: Final[Mapping[RecordState, frozenset[RecordState]]] = {
    RecordState.AVAILABLE: frozenset({RecordState.ACQUIRED, RecordState.ARCHIVED}),
    RecordState.ACQUIRED: frozenset({RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED}),
    RecordState.ACKNOWLEDGED: frozenset(),
    RecordState.ARCHIVED: frozenset(),
}


STATE_OF: Final[Mapping[AcknowledgeType, RecordState]] = {
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: RecordState.AVAILABLE,
    AcknowledgeType.REJECT: RecordState.ARCHIVED,
}
"""The state that an acknowledgement requests; RENEW changes no state."""
