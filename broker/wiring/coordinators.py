"""The coordinators of a node, with the internal topics that keep their state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

from broker.clock import Clock
from broker.config import BrokerConfig
from broker.coordinator.shard import Timer
from broker.coordinator.state_log import StateLog
from broker.coordinator_logs import StateTopic
from broker.groups.config import GroupConfig
from broker.groups.service import GroupService
from cluster.topic_names import GROUP_METADATA_TOPIC
from protocol.compression import Compression


class Coordinators:
    """`state_log` opens the log of an internal topic; `start`, then `stop`, each once."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        state_log: Callable[[StateTopic], StateLog],
        timers: Timer,
        clock: Clock,
    ) -> None:
        self.group_config = GroupConfig(
            **{field.name: getattr(config, field.name) for field in fields(GroupConfig)}
        )
        self.groups = GroupService(
            self.group_config, state_log(_offsets_topic(self.group_config)), timers, clock
        )

    def start(self) -> None:
        """Serve requests from now on."""
        self.groups.start()

    async def stop(self) -> None:
        """Send everybody who waits to other nodes."""
        await self.groups.stop()


def _offsets_topic(config: GroupConfig) -> StateTopic:
    return StateTopic(
        name=GROUP_METADATA_TOPIC,
        num_partitions=config.offsets_topic_num_partitions,
        load_buffer_size=config.offsets_load_buffer_size,
        compression=Compression(config.offsets_topic_compression_codec),
    )
