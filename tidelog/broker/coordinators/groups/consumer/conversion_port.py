"""The conversion between the two types of groups, as commands of consumer groups use it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from tidelog.broker.coordinators.groups.consumer.group import ConsumerGroup
from tidelog.broker.coordinators.groups.consumer.member import ConsumerMember
from tidelog.broker.coordinators.groups.outcome import Writes
from tidelog.broker.coordinators.groups.records.coordinator_records import CoordinatorRecord
from tidelog.broker.coordinators.shared.moment import Moment


class GroupToJoin(NamedTuple):
    """A group that a member joins, and the records that create it from a classic group, if it was one."""

    group: ConsumerGroup
    records: list[CoordinatorRecord]


class GroupConversion(Protocol):
    """Looks up consumer groups. It converts classic groups to consumer groups, and back."""

    def existing(self, group_id: str, kind: str = "Group") -> ConsumerGroup:
        """Return a consumer group. Raise GROUP_ID_NOT_FOUND, with `kind` in the text, if there is none."""
        ...

    def to_join(self, group_id: str, now: Moment) -> GroupToJoin:
        """Return the group that a member joins: a new or a converted one if it is not a consumer group.

        Raise GROUP_ID_NOT_FOUND if a classic group may not be converted.
        """
        ...

    def allows_downgrade(
        self, group: ConsumerGroup, leaving: Mapping[str, ConsumerMember], *, joining: int
    ) -> bool:
        """Return whether a group becomes a classic one when `leaving` leave, and `joining` members join."""
        ...

    def downgrade(
        self,
        group: ConsumerGroup,
        leaving: Mapping[str, ConsumerMember],
        joining: ConsumerMember | None,
        records: list[CoordinatorRecord],
        rebalance_reason: str | None,
    ) -> Writes:
        """Return `records` and those that make the group a classic one.

        `joining` is a static member that replaces another one. With a reason, the classic group rebalances.
        """
        ...
