"""What a command of the group coordinator has written: see `tidelog.broker.coordinators.shared.outcome`."""

from __future__ import annotations

from typing import TypeAlias

from tidelog.broker.coordinators.groups.records import CoordinatorRecord
from tidelog.broker.coordinators.shared import outcome

Writes: TypeAlias = outcome.Writes[CoordinatorRecord]
FollowUp: TypeAlias = "outcome.FollowUp[CoordinatorRecord]"
