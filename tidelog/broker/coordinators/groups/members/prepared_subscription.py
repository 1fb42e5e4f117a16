"""A wide subscription that was prepared in steps before the heartbeat that changes it.

I/O: none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tidelog.broker.coordinators.groups.members.prepared_record import PreparedRecord
from tidelog.broker.coordinators.groups.members.topic_names import NO_TOPIC_NAMES, TopicNames
from tidelog.broker.coordinators.groups.outcome import Writes
from tidelog.broker.coordinators.groups.records.coordinator_records import CoordinatorRecord
from tidelog.broker.coordinators.shared.outcome import NO_WRITES


class PreparedSubscription(NamedTuple):
    """The topics of a heartbeat, and the record of the member with them.

    `replaced` are the topics that the member had. All are empty if only other things were prepared.
    """

    names: TopicNames | None = None
    record: PreparedRecord | None = None
    replaced: TopicNames = NO_TOPIC_NAMES

    def writes(self, records: Sequence[CoordinatorRecord]) -> Writes:
        """Return the writes of the records of the heartbeat."""
        if not records:
            return NO_WRITES
        return Writes(tuple(records)) if self.record is None else self.record.writes(records)


NOT_PREPARED: Final = PreparedSubscription()
