"""The ports of the group coordinator to its node."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tidelog.base.clock import Clock
from tidelog.broker.coordinators.groups.consumer.config import ConsumerGroupConfig
from tidelog.broker.coordinators.shared.shard import Timer
from tidelog.broker.coordinators.shared.state_log import StateLog
from tidelog.broker.scheduling.slices import Slices
from tidelog.cluster.image import MetadataImage


class GroupPorts(NamedTuple):
    """The log of the state, the time, the metadata, and the settings that change while the node runs.

    `new_suffix` returns a unique suffix for the id of a member.
    """

    log: StateLog
    timer: Timer
    clock: Clock
    slices: Slices
    image: Callable[[], MetadataImage]
    consumer_config: Callable[[], ConsumerGroupConfig]
    new_suffix: Callable[[], str]
