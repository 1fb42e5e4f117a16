"""The parts that the commands of members of consumer groups share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tidelog.broker.coordinators.groups.consumer.config import ConsumerGroupSettings
from tidelog.broker.coordinators.groups.consumer.conversion_port import GroupConversion
from tidelog.broker.coordinators.groups.consumer.expressions import Expressions
from tidelog.broker.coordinators.groups.consumer.member_lookup import MemberLookup
from tidelog.broker.coordinators.groups.consumer.membership_update import MembershipUpdate
from tidelog.broker.coordinators.groups.consumer.removal import MemberRemoval
from tidelog.broker.coordinators.groups.consumer.timers import MemberTimers
from tidelog.broker.coordinators.groups.consumer.topics import Topics


class CommandContext(NamedTuple):
    """The parts of one coordinator that its commands share. `new_member_id` returns a unique id."""

    groups: GroupConversion
    settings: ConsumerGroupSettings
    topics: Topics
    timers: MemberTimers
    update: MembershipUpdate
    lookup: MemberLookup
    removal: MemberRemoval
    expressions: Expressions
    new_member_id: Callable[[], str]
