"""Tiered storage of one node: storage manager, metadata manager, RemoteLogManager and reader.

create      create the configured managers in a thread; nothing connects yet, so that a broker starts
            while its object store is unreachable
subscribe   apply changes of partition roles, topic configs and dynamic broker configs from now on
start       when the listeners accept: the metadata manager reads its topic in the background (KIP-1197)
close       end tasks, metadata, storage and index cache, each within its timeout
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Final
from uuid import UUID

from tidelog.base.backoff import ExponentialBackoff
from tidelog.base.bounded_pool import BoundedPool
from tidelog.base.clock import Clock
from tidelog.base.dataclass import dataclass
from tidelog.base.threads import Threads
from tidelog.broker.channels.peer_security import PeerSecurity
from tidelog.broker.config.listeners import Listener
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.fetching.remote_fetch import RemoteAccess, RemoteFetchMemory
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.partitions.role_changes import RoleChanges
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.broker.replication.remote_tier import FollowerTier
from tidelog.broker.tier.leader_recovery import LeaderRecovery
from tidelog.broker.tier.managers import (
    ManagerPorts,
    create_metadata_manager,
    create_storage_manager,
)
from tidelog.broker.tier.metered_reader import MeteredReader
from tidelog.broker.tier.metrics import report_remote
from tidelog.broker.tier.mounts import MountFollower, MountPorts
from tidelog.broker.tier.roles import RemoteRoles
from tidelog.broker.tier.settings import log_manager_settings
from tidelog.clients.config.environment import Environment
from tidelog.cluster.delta import MetadataDelta
from tidelog.cluster.image import MetadataImage, ResourceType
from tidelog.cluster.topic_references import referenced_until_ms
from tidelog.protocol.ids import TopicPartition
from tidelog.remote.index_cache.cache import RemoteIndexCache
from tidelog.remote.log_manager.manager import RemoteLogManager
from tidelog.remote.metadata.topic_based import TopicBasedRemoteLogMetadataManager
from tidelog.remote.ports.segment_metadata import TopicIdPartition
from tidelog.remote.ports.storage_manager import RemoteStorageError, StoreUnavailable
from tidelog.remote.reading.reader import RemoteLogReader
from tidelog.remote.tasks.context import NodeServices
from tidelog.remote.tasks.outages import StoreOutages
from tidelog.storage.disk.files import FileSystem

if TYPE_CHECKING:
    from tidelog.remote.objects.manager import ObjectStorageManager
    from tidelog.remote.objects.stores.port import OpenStore

CLOSE_TIMEOUT_S: Final = 5.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TieredStoragePorts:
    """The ports of tiered storage to the rest of the node.

    `directory` is the log directory for caches and snapshots. `executor` runs calls that wait for a disk.
    `threads` starts the threads that wait for the object store, which `open_store` opens.
    `config` returns the current configuration, `create_purgatory` a purgatory with its name in metrics.
    `security` is that of connections to the listener for metadata.
    `is_confirmed` returns whether the controller has confirmed this broker within the session timeout.
    """

    fs: FileSystem
    clock: Clock
    environment: Environment
    security: PeerSecurity
    metrics: BrokerMetrics
    executor: Executor
    threads: Threads
    open_store: OpenStore
    directory: str
    config: Callable[[], BrokerConfig]
    replicas: ReplicaManager
    create_purgatory: Callable[[str], Purgatory]
    advertised: Callable[[], tuple[Listener, ...]]
    is_confirmed: Callable[[], bool]
    on_failure: Callable[[str], None]


class TieredStorage:
    """The tiered storage of one node; all methods run on the node's event loop."""

    def __init__(
        self,
        ports: TieredStoragePorts,
        storage: ObjectStorageManager,
        metadata: TopicBasedRemoteLogMetadataManager,
        index_cache: RemoteIndexCache,
        outages: StoreOutages,
    ) -> None:
        self._ports = ports
        self._config = config = ports.config()
        self.storage = storage
        self.metadata = metadata
        self.index_cache = index_cache
        self._referenced_until_ms: dict[UUID, int] = {}
        settings = log_manager_settings(config)
        self.manager = RemoteLogManager(
            settings,
            storage,
            metadata,
            NodeServices(
                broker_id=config.node_id,
                clock=ports.clock,
                randomness=ports.environment.rng,
                is_confirmed=ports.is_confirmed,
                outages=outages,
                referenced_until_ms=self._referenced_until,
                threads=ports.threads,
            ),
        )
        self._auxiliary_pool = BoundedPool(
            "remote-log-follower",
            settings.remote_log_manager_follower_thread_pool_size,
            starter=ports.threads,
        )
        reader = RemoteLogReader(
            storage,
            metadata,
            index_cache,
            self.manager.reader_pool,
            auxiliary_pool=self._auxiliary_pool,
            clock=ports.clock,
        )
        self.reader = MeteredReader(
            reader,
            self.manager.figures,
            self.manager.fetch_quota,
            ports.clock,
            RemoteFetchMemory(config.remote_fetch_max_memory_bytes),
        )
        self.access = RemoteAccess(
            self.reader,
            ports.create_purgatory("RemoteFetch"),
            ports.create_purgatory("RemoteListOffsets"),
            lambda: ports.config().remote_fetch_max_wait_ms,
            lambda: ports.config().remote_list_offsets_request_timeout_ms,
        )
        self.follower_tier = FollowerTier(metadata, self.reader)
        self.roles = RemoteRoles(self.manager, ports.replicas, self._remove_indexes)
        self.mounts = self._create_mounts()
        self.recovery = self._create_recovery()

    def _create_mounts(self) -> MountFollower:
        ports = self._ports
        return MountFollower(
            MountPorts(
                metadata=self.metadata,
                reader=self.reader,
                replicas=ports.replicas,
                store=self.storage.store,
                run_in_thread=self._auxiliary_pool.run,
                interval_ms=lambda: ports.config().remote_log_manager_task_interval_ms,
                clock=ports.clock,
                broker_id=self._config.node_id,
            )
        )

    def _referenced_until(self, topic_id: UUID) -> int | None:
        return self._referenced_until_ms.get(topic_id)

    def _create_recovery(self) -> LeaderRecovery:
        ports, settings = self._ports, log_manager_settings(self._config)
        return LeaderRecovery(
            self.metadata,
            self.reader,
            ports.replicas,
            clock=ports.clock,
            randomness=ports.environment.rng,
            backoff=ExponentialBackoff(
                settings.remote_log_manager_task_retry_backoff_ms,
                settings.remote_log_manager_task_retry_backoff_max_ms,
                settings.remote_log_manager_task_retry_jitter,
            ),
            register_new=self.mounts.register_new,
        )

    @classmethod
    async def create(cls, ports: TieredStoragePorts) -> TieredStorage:
        """Create the configured managers. Errors: ConfigError."""
        config = ports.config()
        outages = StoreOutages.create(log_manager_settings(config), ports.clock, ports.environment.rng)

        def create_in_thread() -> tuple[ObjectStorageManager, RemoteIndexCache]:
            from tidelog.remote.objects.stores.port import StorePorts

            store_ports = StorePorts(
                ports.clock,
                ports.environment.rng,
                threads=ports.threads,
                open_file=ports.fs.open_stream,
            )
            storage = create_storage_manager(config, ports.open_store, store_ports, outages)
            cache = RemoteIndexCache(
                ports.fs,
                ports.directory,
                storage,
                config.remote_log_index_file_cache_total_size_bytes,
            )
            try:
                cache.load()
            except OSError as error:
                logger.error(
                    "Cannot load the index cache %s: %s; starting with an empty cache", cache.directory, error
                )
            return storage, cache

        loop = asyncio.get_running_loop()
        storage, cache = await loop.run_in_executor(ports.executor, create_in_thread)
        manager_ports = ManagerPorts(
            fs=ports.fs,
            environment=ports.environment,
            security=ports.security,
            executor=ports.executor,
            threads=ports.threads,
            directory=ports.directory,
            advertised=ports.advertised,
            on_failure=ports.on_failure,
        )
        return cls(ports, storage, create_metadata_manager(config, manager_ports), cache, outages)

    def subscribe(self, image: MetadataImage) -> None:
        """Add the partitions of this node, and listen to role changes from now on."""
        self._ports.replicas.add_listener(self)
        self._referenced_until_ms = referenced_until_ms(image)
        self.roles.add_existing(image)
        self.recovery.check()
        self.mounts.start(self._ports.replicas.partitions.values())

    def delete_data_of_deleted_topics(
        self, retired_partitions: Iterable[tuple[TopicPartition, UUID]], image: MetadataImage
    ) -> None:
        """Delete the remote data of topics that were deleted while this node was stopping or stopped.

        A node that stops before it marks the deletion in the remote metadata leaves no record of it. If all
        nodes do so, only their log directories show the deletion. A repeated deletion has no effect.
        """
        deleted_partitions = [
            TopicIdPartition(topic_id, *name)
            for name, topic_id in dict.fromkeys(retired_partitions)
            if topic_id not in image.topics_by_id
        ]
        self.manager.stop_partitions(deleted_partitions, deletes_remote=True)

    def start(self) -> None:
        """Start the managers, after the listeners of the node have begun to accept connections."""
        report_remote(self._ports.metrics, self.manager, self.reader, self.index_cache, self.storage)
        self._ports.metrics.add_purgatories(self.access.fetches, self.access.list_offsets)
        self.metadata.start()
        self.manager.start()
        self._ports.executor.submit(self._probe)

    def _probe(self) -> None:
        """Log one line if the store cannot be used; an outage is logged by its observer."""
        try:
            self.storage.probe()
        except StoreUnavailable:
            pass
        except RemoteStorageError as error:
            logger.warning("Cannot use remote storage: %s", error)

    def on_roles_changed(self, changes: RoleChanges, image: MetadataImage) -> None:
        """Apply role changes; complete requests for partitions of which this node is no longer the leader."""
        self.roles.on_roles_changed(changes, image)
        self.recovery.check()
        self.mounts.start(changes.leaders)
        for name in (*changes.removed, *(each.topic_partition for each in changes.followers)):
            self.access.fetches.check_and_complete(name)
            self.access.list_offsets.check_and_complete(name)

    def on_configs_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply topic configs and dynamic broker configs; a subscriber of the metadata store."""
        if any(resource_type == ResourceType.TOPIC for resource_type, _ in delta.changed_configs):
            self._referenced_until_ms = referenced_until_ms(image)
        self.roles.on_configs_changed(delta, image)
        config = self._ports.config()
        if config is self._config:
            return
        self._config = config
        settings = log_manager_settings(config)
        self.manager.update_settings(settings)
        self._auxiliary_pool.resize(settings.remote_log_manager_follower_thread_pool_size)
        # In a thread, because a smaller cache deletes files. Each call uses the newest configuration.
        self._ports.executor.submit(
            lambda: self.index_cache.resize(self._config.remote_log_index_file_cache_total_size_bytes)
        )

    def complete_requests(self) -> None:
        """Complete the requests that wait for remote storage, because the node shuts down."""
        self.access.fetches.force_all()
        self.access.list_offsets.force_all()

    async def stop_writing(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """End copies and deletions, each within `timeout_s`, and write their records; reads continue.

        Called while this node is a leader. If all nodes stop, the metadata topic has no leader after that:
        the records could not be written, and the stop would wait for them in vain.
        """
        self.roles.close()
        await self.recovery.close()
        await self.mounts.close()
        await self.manager.stop_tasks(timeout_s)
        await _close_within(timeout_s, self.metadata.stop_writing(), "the writer of remote metadata")

    async def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Close all parts, each within `timeout_s`; abandon requests to the object store that hang."""
        self.roles.close()
        await self.recovery.close()
        await self.mounts.close()
        await self.manager.close(timeout_s)
        self._auxiliary_pool.close()
        await _close_within(timeout_s, self.metadata.close(), "the metadata of remote segments")
        loop = asyncio.get_running_loop()
        close_future = loop.run_in_executor(None, self._close_in_thread)
        await _close_within(timeout_s, asyncio.shield(close_future), "the remote storage manager")

    def _close_in_thread(self) -> None:
        self.storage.close()
        self.index_cache.close()

    def _remove_indexes(self, partition: TopicIdPartition) -> None:
        loop = asyncio.get_running_loop()
        loop.run_in_executor(self._ports.executor, self.index_cache.remove_partition, partition)


async def _close_within(timeout_s: float, work: Awaitable[object], part: str) -> None:
    """Wait until a part is closed; log a failure or a timeout, after which its threads are abandoned."""
    try:
        await asyncio.wait_for(work, timeout_s)
    except TimeoutError:
        logger.warning("Cannot close %s within %g s; abandoning it", part, timeout_s)
    except Exception:
        logger.exception("Cannot close %s", part)
