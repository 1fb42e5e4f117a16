"""The ports of a group service in tests."""

from __future__ import annotations

from uuid import uuid4

from tests.support.configs import consumer_group_config
from tests.support.metadata.images import image_with_brokers
from tidelog.base.clock import Clock
from tidelog.broker.coordinators.groups.ports import GroupPorts
from tidelog.broker.coordinators.shared.shard import Timer
from tidelog.broker.coordinators.shared.state_log import StateLog
from tidelog.broker.scheduling.slices import Slices


def group_ports(log: StateLog, timer: Timer, clock: Clock, slices: Slices | None = None) -> GroupPorts:
    """Return ports without topics, with random member ids."""
    image = image_with_brokers()
    return GroupPorts(
        log=log,
        timer=timer,
        clock=clock,
        slices=slices or Slices(clock),
        image=lambda: image,
        consumer_config=consumer_group_config,
        new_suffix=lambda: str(uuid4()),
    )
