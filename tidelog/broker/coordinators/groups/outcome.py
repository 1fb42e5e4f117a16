"""The types of `tidelog.broker.coordinators.shared.outcome` for the records of groups."""

from __future__ import annotations

from typing import TypeAlias

from tidelog.broker.coordinators.groups.records.coordinator_records import CoordinatorRecord
from tidelog.broker.coordinators.shared import outcome

Writes: TypeAlias = outcome.Writes[CoordinatorRecord]
FollowUp: TypeAlias = "outcome.FollowUp[CoordinatorRecord]"
