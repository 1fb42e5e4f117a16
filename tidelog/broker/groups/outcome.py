"""What a command of the group coordinator has written: see `tidelog.broker.coordinator.outcome`."""

from __future__ import annotations

from typing import TypeAlias

from tidelog.broker.coordinator import outcome
from tidelog.broker.groups.records import CoordinatorRecord

Writes: TypeAlias = outcome.Writes[CoordinatorRecord]
Settled: TypeAlias = "outcome.Settled[CoordinatorRecord]"
