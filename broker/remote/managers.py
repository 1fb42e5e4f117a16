"""Which storage manager and which metadata manager a node works with, by the class names of its settings.

There is one of each: Apache Kafka's name of the metadata manager and the names of Aiven's storage manager,
which writes the same objects, mean these. Errors: ConfigError for any other name.
"""

from __future__ import annotations

from typing import Protocol

from broker.config import BrokerConfig
from broker.wiring.node_context import NodeContext
from remote.metadata.in_memory import InMemoryMetadataLog, InMemoryRemoteLogMetadataManager
from remote.metadata_manager import RemoteLogMetadataManager
from remote.storage_manager import RemoteStorageManager


class ManagedMetadata(RemoteLogMetadataManager, Protocol):
    """A metadata manager that begins to work when the node is reachable."""

    def start(self) -> None:
        """Begin, in the background."""
        ...


def first_directory(context: NodeContext) -> str:
    """The log directory that also holds what is kept of the tier: the first that can be used."""
    usable = context.log_directory_ids
    return next(path for path in context.config.log_directories if path in usable)


def make_storage_manager(config: BrokerConfig) -> RemoteStorageManager:
    """The storage manager that the settings describe, connected to nothing yet; blocks for imports."""
    from broker.remote.settings import storage_manager_values
    from remote.storage_config import storage_manager_from_config

    return storage_manager_from_config(storage_manager_values(config))


class _InMemory(InMemoryRemoteLogMetadataManager):
    def start(self) -> None:
        """Nothing."""


_LOGS: dict[str, InMemoryMetadataLog] = {}


def make_metadata_manager(config: BrokerConfig, context: NodeContext) -> ManagedMetadata:
    """The metadata manager."""
    return _InMemory(_LOGS.setdefault(context.cluster_id, InMemoryMetadataLog()))
