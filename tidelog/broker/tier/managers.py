"""Creates the remote storage manager and the metadata manager of a node from its configuration.

There is one implementation of each. Apache Kafka's class name selects the metadata manager. The class name of
Aiven's storage manager, which writes the same objects, selects the storage manager.
`tidelog.broker.config.checks` rejects other names. Errors: ConfigError.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Final

from tidelog.base.config_definition import ConfigError
from tidelog.base.dataclass import dataclass
from tidelog.base.threads import Threads
from tidelog.broker.channels.peer_security import PeerSecurity
from tidelog.broker.config.listeners import Listener
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.tier.settings import metadata_manager_values, storage_manager_values
from tidelog.clients.config.environment import Environment
from tidelog.remote.metadata.config import MetadataTopicConfig
from tidelog.remote.metadata.snapshot_files import SnapshotFiles
from tidelog.remote.metadata.topic_based import TopicBasedRemoteLogMetadataManager
from tidelog.remote.metadata.topic_clients import TopicClients
from tidelog.remote.tasks.outages import StoreOutages
from tidelog.storage.disk.files import FileSystem

if TYPE_CHECKING:
    from tidelog.remote.objects.manager import ObjectStorageManager
    from tidelog.remote.objects.stores.port import OpenStore, StorePorts

_SNAPSHOT_WRITERS: Final = 8
"""Each writer calls fsync three times per partition. A node that stops has 5 s to write all partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerPorts:
    """The ports of a metadata manager to the node; `directory` contains its snapshots.

    `security` is that of connections to the listener for metadata.
    """

    fs: FileSystem
    environment: Environment
    security: PeerSecurity
    executor: Executor
    threads: Threads
    directory: str
    advertised: Callable[[], tuple[Listener, ...]]
    on_failure: Callable[[str], None]


def create_storage_manager(
    config: BrokerConfig,
    open_store: OpenStore,
    ports: StorePorts,
    outages: StoreOutages,
) -> ObjectStorageManager:
    """Return the configured storage manager, which has no connection yet and reports to `outages`.

    I/O: imports modules, which blocks; call it in a thread.
    """
    from tidelog.remote.objects.config import storage_manager_from_config
    from tidelog.remote.objects.stores.activity import StoreActivity

    activity = StoreActivity(outages.copies, outages.reads, outages.deletions)
    return storage_manager_from_config(storage_manager_values(config), ports, activity, open_store)


def create_metadata_manager(config: BrokerConfig, ports: ManagerPorts) -> TopicBasedRemoteLogMetadataManager:
    """Return the manager of the metadata topic, to which it connects through this node's own listener.

    If the topic cannot be used, or cannot be reached in time, it calls `on_failure` (KAFKA-19425).
    """
    values = metadata_manager_values(config)
    try:
        settings = MetadataTopicConfig.of(values)
    except ConfigError as error:
        prefix = config.remote_log_metadata_manager_impl_prefix
        raise ConfigError(prefix + error.key, error.value, error.allowed) from error

    def bootstrap_servers() -> str:
        return next(
            _address(listener) for listener in ports.advertised() if listener.name == config.metadata_listener
        )

    async def run_blocking(function: Callable[..., Any], /, *arguments: Any) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(ports.executor, function, *arguments)

    return TopicBasedRemoteLogMetadataManager(
        settings,
        TopicClients(
            bootstrap_servers,
            settings,
            config.node_id,
            values=values,
            options=_security_options(values, ports.security),
            environment=ports.environment,
            authenticator=ports.security.authenticator,
        ),
        files=SnapshotFiles(ports.fs, ports.directory, writers=_SNAPSHOT_WRITERS, threads=ports.threads),
        run_blocking=run_blocking,
        on_failure=ports.on_failure,
    )


def _security_options(values: Mapping[str, str], security: PeerSecurity) -> dict[str, Any]:
    """Return the options for TLS; keys ssl.* for these clients have precedence over those of the listener."""
    tls, uses_sasl = security.ssl, security.authenticator is not None
    if tls is None:
        return {"security_protocol": "SASL_PLAINTEXT"} if uses_sasl else {}
    options: dict[str, Any] = {"security_protocol": "SASL_SSL" if uses_sasl else "SSL"}
    if not any(key.startswith("remote.log.metadata.") and ".ssl." in key for key in values):
        options["ssl_context"] = tls
    return options


def _address(listener: Listener) -> str:
    host = f"[{listener.host}]" if ":" in listener.host else listener.host
    return f"{host}:{listener.port}"
