"""The ports of a group service in tests."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import uuid4

from tests.support.configs import consumer_group_config, share_group_config, streams_group_config
from tests.support.groups.share_states import MemoryPersister
from tests.support.metadata.images import image_with_brokers
from tidelog.base.clock import Clock
from tidelog.broker.coordinators.groups.ports import GroupPorts
from tidelog.broker.coordinators.shared.state_log import StateLog
from tidelog.broker.coordinators.shared.timer import Timer
from tidelog.broker.scheduling.slices import Slices
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import TopicPartition


class FixedEndOffsets:
    """Returns the same end offset for every partition."""

    def __init__(self, offset: int = 100) -> None:
        self.offset = offset

    async def of_partitions(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int | ErrorCode]:
        return dict.fromkeys(partitions, self.offset)


def group_ports(
    log: StateLog,
    timer: Timer,
    clock: Clock,
    slices: Slices | None = None,
    *,
    persister: MemoryPersister | None = None,
    image: MetadataImage | None = None,
) -> GroupPorts:
    """Return ports, without topics by default, with random member ids."""
    image = image or image_with_brokers()
    return GroupPorts(
        log=log,
        timer=timer,
        clock=clock,
        slices=slices or Slices(clock),
        image=lambda: image,
        consumer_config=consumer_group_config,
        share_config=share_group_config,
        streams_config=streams_group_config,
        persister=persister or MemoryPersister(),
        end_offsets=FixedEndOffsets(),
        new_suffix=lambda: str(uuid4()),
    )
