"""The parts of a consumer that its group membership uses, with the classic and with the consumer protocol."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.base.dataclass import dataclass
from tidelog.clients.config.client_config import ConsumerConfig
from tidelog.clients.consumer.partition_state import AssignedPartitions
from tidelog.clients.groups.coordinator_lookup import CoordinatorLookup
from tidelog.clients.groups.offset_committer import OffsetCommitter
from tidelog.clients.metadata.cluster_client import ClusterClient


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPorts:
    """The parts of one consumer; `on_change` is called when `poll` should call `advance` again."""

    client: ClusterClient
    config: ConsumerConfig
    lookup: CoordinatorLookup
    committer: OffsetCommitter
    assigned: AssignedPartitions
    on_change: Callable[[], None]
