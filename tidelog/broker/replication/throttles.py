"""The replication quotas of this node, kept up to date with the configs in the metadata.

`leader.replication.throttled.rate` and `follower.replication.throttled.rate` are dynamic configs of brokers.
`...throttled.replicas` are configs of topics. A reassignment with `--throttle` sets all of them.
`replica.alter.log.dirs.io.max.bytes.per.second` limits all moves between the log directories of a broker.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from tidelog.broker.config.node_config import BrokerConfig
from tidelog.cluster.delta import MetadataDelta
from tidelog.cluster.image import MetadataImage, ResourceType
from tidelog.cluster.replication.throttle import ReplicationQuota, throttled_indices
from tidelog.protocol.ids import BrokerId

logger = logging.getLogger(__name__)

MOVES_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
_SIDES: Final = ("leader", "follower")


class ReplicationThrottles:
    """The quotas for records that this node sends as leader, that it fetches, and that it moves on its disks.

    `moves` is the quota of moves between log directories; None: one without a limit.
    """

    def __init__(
        self, node_id: BrokerId, *, window_ms: int, window_count: int, moves: ReplicationQuota | None = None
    ) -> None:
        self.leader = ReplicationQuota(window_ms=window_ms, window_count=window_count)
        self.follower = ReplicationQuota(window_ms=window_ms, window_count=window_count)
        self.moves = moves or ReplicationQuota(
            window_ms=window_ms, window_count=window_count, covers_all=True
        )
        self._node_id = node_id
        self._quotas = dict(zip(_SIDES, (self.leader, self.follower), strict=True))

    @classmethod
    def of(cls, config: BrokerConfig) -> ReplicationThrottles:
        """Return throttles with the windows of [alter.log.dirs.]replication.quota.window.*."""
        moves = ReplicationQuota(
            window_ms=config.alter_log_dirs_replication_quota_window_size_seconds * 1_000,
            window_count=config.alter_log_dirs_replication_quota_window_num,
            covers_all=True,
        )
        return cls(
            config.node_id,
            window_ms=config.replication_quota_window_size_seconds * 1_000,
            window_count=config.replication_quota_window_num,
            moves=moves,
        )

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply one metadata update; a subscriber of the metadata store."""
        for resource_type, name in delta.changed_configs:
            if resource_type == ResourceType.BROKER and name in ("", str(self._node_id)):
                self._set_rates(image)
            elif resource_type == ResourceType.TOPIC:
                self._set_topic(name, image.topic_configs(name))
        for topic in delta.deleted_topics:
            if topic.name not in image.topics_by_name:
                self._set_topic(topic.name, {})

    def _set_rates(self, image: MetadataImage) -> None:
        set_texts = {**image.cluster_configs(), **image.broker_configs(self._node_id)}
        for side, quota in self._quotas.items():
            text = set_texts.get(f"{side}.replication.throttled.rate")
            # Kafka's default is practically unlimited.
            quota.set_rate(None if text is None else int(text))
        text = set_texts.get(MOVES_RATE)
        self.moves.set_rate(None if text is None else int(text))

    def _set_topic(self, topic: str, configs: Mapping[str, str]) -> None:
        for side, quota in self._quotas.items():
            text = configs.get(f"{side}.replication.throttled.replicas", "")
            replicas = [part.strip() for part in text.split(",") if part.strip()]
            quota.set_topic(topic, throttled_indices(replicas, self._node_id))
