"""A broker's logs and their partitions: opened, updated with the metadata, and closed cleanly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from tidelog.base.randomness import new_uuid
from tidelog.broker.config.dynamic_configs import DynamicBrokerConfig
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.logs.cleaning.log_cleaner import LogCleaner
from tidelog.broker.logs.flusher import Flusher
from tidelog.broker.logs.log_work_queue import LogWorkQueue
from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.node.wiring.node_context import NodeContext
from tidelog.broker.partitions.leadership import Leadership, LeadershipPorts
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.partitions.waiting_requests import WaitingRequests
from tidelog.broker.registration.broker_lifecycle import BrokerLifecycle
from tidelog.broker.replication.isr_updates import IsrUpdates
from tidelog.broker.replication.throttles import ReplicationThrottles
from tidelog.cluster.delta import MetadataDelta
from tidelog.cluster.features import (
    metadata_version,
    supports_cordoned_directories,
    supports_directories,
)
from tidelog.cluster.image import MetadataImage, ResourceType
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.directories.log_directory import LogDirectory
from tidelog.storage.directories.log_manager import LogManager
from tidelog.storage.disk.errors import StorageFailure
from tidelog.storage.log.partition_log import PartitionLog

FLUSH_TIMEOUT_S: Final = 2.0


class LogsPart:
    """Owns the logs: `open`, then `close` after the last write; `close` is not called after a crash."""

    def __init__(
        self,
        context: NodeContext,
        store: MetadataStore,
        lifecycle: BrokerLifecycle,
        on_config_changed: Callable[[BrokerConfig], None],
        isr_updates: IsrUpdates,
        waiting_requests: WaitingRequests,
    ) -> None:
        """Create the parts; `on_config_changed` is called with each new configuration of the broker."""
        config = context.config
        self._context = context
        self._store = store
        self._lifecycle = lifecycle
        self._on_config_changed = on_config_changed
        self._clock = context.clock
        self._is_closed = False
        self.manager = LogManager(
            context.fs,
            config.log_directories,
            new_id=lambda: new_uuid(context.randomness),
            producer_id_expiration_ms=config.producer_id_expiration_ms,
            remote_storage_system_enable=config.remote_log_storage_system_enable,
        )
        self.flusher = Flusher(context.threads.flush, self._clock, self._on_flushed, self._on_flush_failed)
        self.dynamic_config = DynamicBrokerConfig(config)
        self.cleaner = LogCleaner(
            self.manager,
            context.ports.start_cleaning_worker,
            context.threads.cleaning,
            self._clock,
            lambda: self.dynamic_config.current,
        )
        self.leadership = Leadership(
            config.node_id,
            clock=self._clock,
            brokers=lambda: store.image.brokers,
            own_epoch=lambda: lifecycle.broker_epoch,
            lag_time_max_ms=config.replica_lag_time_max_ms,
            ports=LeadershipPorts(isr_updates, waiting_requests, self.flusher.flush),
        )
        self.log_work = LogWorkQueue(
            context.threads.log_work,
            lambda outcomes: self.replicas.on_log_work_done(outcomes, self._clock.wall_ms()),
        )
        self.replicas = ReplicaManager(
            config.node_id, self.manager, self.dynamic_config.topic_defaults, self.leadership, self.log_work
        )
        self.throttles = ReplicationThrottles.of(config)

    # ---- open and close

    async def open(self) -> None:
        """Open every log in the directories, then create the partitions that are assigned to this broker."""
        now_ms = self._clock.wall_ms()
        # In a thread, because heartbeats and the metadata quorum must continue.
        open_future = asyncio.get_running_loop().run_in_executor(
            self._context.threads.housekeeping, self.manager.start, now_ms, self._log_config
        )
        try:
            await asyncio.shield(open_future)
        except asyncio.CancelledError:
            # Wait: logs that have not been checked yet must not be closed as complete.
            await asyncio.wait([open_future])
            raise
        self._report_failed_directories()
        image = self._store.image
        self._cordon(self._context.config, image)
        self._complete_registration(image)
        self.manager.retire_strays(self.replicas.assigned_partitions(image), now_ms)
        self._store.subscribe(self.throttles.apply)
        self._store.subscribe(self._apply_metadata_version)
        self._store.subscribe(self._apply_settings)
        self._store.subscribe(self._apply_partitions)
        await self.log_work.wait_until_done()

    async def flush(self) -> None:
        """Make what has been appended durable, several logs at the same time.

        After FLUSH_TIMEOUT_S, `close` flushes the rest, one log after the other, and handles failures.
        """
        self.manager.directories.call_when_offline(None)
        await self.flusher.flush_all(self.manager.logs, FLUSH_TIMEOUT_S)

    async def close(self) -> None:
        """Flush all logs and mark the directories as closed cleanly; nothing is written afterwards.

        It runs in a thread: other nodes may need this node's metadata quorum for their own stop.
        """
        self._is_closed = True
        self.manager.directories.call_when_offline(None)
        now_ms, epoch = self._clock.wall_ms(), self._lifecycle.broker_epoch
        loop = asyncio.get_running_loop()
        await asyncio.shield(
            loop.run_in_executor(self._context.threads.housekeeping, self.manager.shutdown, now_ms, epoch)
        )

    def _log_config(self, topic: str) -> LogConfig:
        return self.replicas.log_config(topic, self._store.image)

    # ---- disks that fail

    def _report_failed_directories(self) -> None:
        """Report the directories whose logs could not be opened; from now on, report each that fails."""
        self.manager.directories.call_when_offline(self._on_directory_failed)
        for directory in self.manager.directories:
            if directory.offline_reason is not None:
                self._on_directory_failed(directory)

    def _on_directory_failed(self, directory: LogDirectory) -> None:
        """Report the directory to the controller; fail the node if it was the last one.

        The node also fails if metadata.version has no log directories: the controller would not know that the
        partitions need other leaders.
        """
        self.replicas.on_directory_failed(directory.lost_partitions, str(directory.offline_reason))
        directory_id = self._context.directory_ids.get(directory.path)
        # A directory that could not be used at the start has no id, and is not registered.
        if directory_id is not None:
            self._lifecycle.report_offline_directory(directory_id)
        if not self.manager.directories.online:
            self._context.failure.report("every log directory is offline")
        elif not supports_directories(self._store.image):
            level = metadata_version(self._store.image)
            self._context.failure.report(
                f"log directory {directory.path} has failed; below metadata.version 17 (it is {level}), its "
                "partitions get other leaders only if the node stops"
            )

    def _on_flushed(self, log: PartitionLog) -> None:
        self.replicas.on_flushed(log)

    def _on_flush_failed(self, log: PartitionLog, failure: StorageFailure) -> None:
        self.manager.directories.disk_failed(log, failure)

    # ---- metadata updates

    def _apply_partitions(self, delta: MetadataDelta, image: MetadataImage) -> None:
        # The quorum stops after the logs. Nothing may be written after the clean-shutdown marker.
        if self._is_closed:
            return
        self.replicas.apply(delta, image, self._clock.wall_ms())
        existing = delta.base.topics_by_name  # the logs of new topics are empty
        if any(kind == ResourceType.TOPIC and name in existing for kind, name in delta.changed_configs):
            self.cleaner.search_now()

    def _apply_metadata_version(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """After an upgrade of metadata.version, report what the metadata could not have before."""
        if not self._is_closed and metadata_version(image) != metadata_version(delta.base):
            self._cordon(self.dynamic_config.current, image)
            self._complete_registration(image)

    def _complete_registration(self, image: MetadataImage) -> None:
        """Register again if the metadata has log directories, but not yet those of this broker."""
        registered = image.brokers.get(self._context.config.node_id)
        if registered is not None and not registered.log_dirs and supports_directories(image):
            self._lifecycle.register_again()

    def _apply_settings(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply changed dynamic configs of this broker, before the partitions are updated."""
        if self._is_closed or not self.dynamic_config.apply(delta, image):
            return
        config = self.dynamic_config.current
        self._on_config_changed(config)
        self._cordon(config, image)
        self.manager.use_producer_id_expiration(config.producer_id_expiration_ms)
        self.replicas.update_defaults(self.dynamic_config.topic_defaults, image)
        self.cleaner.update_settings()

    def _cordon(self, config: BrokerConfig, image: MetadataImage) -> None:
        """Cordon directories: no new partitions in them; report them if metadata.version has KIP-1066."""
        self.manager.cordon(config.cordoned_directories)
        if supports_cordoned_directories(image):
            ids = self._context.log_directory_ids
            self._lifecycle.report_cordoned_directories(
                ids[path] for path in config.cordoned_directories if path in ids
            )
