"""The border between the local and the remote part of one log.

A log that is not tiered starts where its local part starts. The offsets change in an order that keeps every
offset readable in one of the two parts (KAFKA-15352, KAFKA-16073). The local start rises before local
segments are deleted, and only segments that are in remote storage are deleted. The log start rises before
remote segments are deleted.

Source: UnifiedLog of Apache Kafka 4.3; KIP-405, KIP-950.
"""

from __future__ import annotations

from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.storage.log.log_offsets import LogOffsets
from tidelog.storage.log.settings import LogSettings
from tidelog.storage.log.tiered_retention import RemoteBounds, has_remote_part, is_tiered


class RemoteBorder:
    """Tracks whether a log is tiered, and up to which offset it has been copied to remote storage.

    Invariant: highest_offset_in_remote_storage < log_end_offset.
    """

    __slots__ = (
        "_has_start_in_local_part",
        "_is_system_enabled",
        "_offsets",
        "_settings",
        "_topic_partition",
        "highest_offset_in_remote_storage",
        "is_remote_log_known",
        "remote_log_enabled",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        settings: LogSettings,
        offsets: LogOffsets,
        *,
        is_system_enabled: bool,
    ) -> None:
        self._topic_partition = topic_partition
        self._settings = settings
        self._offsets = offsets
        self._is_system_enabled = is_system_enabled
        self._has_start_in_local_part = False
        self.highest_offset_in_remote_storage: Offset = -1
        """The last offset (inclusive) up to which the log is in remote storage; -1 if none is known."""
        self.is_remote_log_known = False
        """Whether that offset was reported since this replica became leader or follower (KAFKA-20732)."""
        self.remote_log_enabled = False
        """Whether the log is tiered now."""
        self.update_settings()

    @property
    def may_have_remote_part(self) -> bool:
        """Whether records may be in remote storage, also while the log is compacted by a broker's default."""
        return has_remote_part(
            self._topic_partition, self._settings.config, is_system_enabled=self._is_system_enabled
        )

    @property
    def bounds(self) -> RemoteBounds:
        """The offsets that limit which local segments retention may delete."""
        return RemoteBounds(
            self._offsets.local_log_start_offset,
            self.highest_offset_in_remote_storage,
            self.is_remote_log_known,
        )

    def update_settings(self) -> None:
        """Derive `remote_log_enabled` from the settings."""
        self.remote_log_enabled = is_tiered(
            self._topic_partition, self._settings.config, is_system_enabled=self._is_system_enabled
        )

    def raise_highest_offset(self, offset: Offset) -> None:
        """Record that the log is in remote storage up to `offset` (inclusive; -1: nothing is).

        The offset never falls. A follower that has not replicated that far records its own last offset.
        """
        if not self.remote_log_enabled:
            return
        self.is_remote_log_known = True
        offset = min(offset, self._offsets.log_end_offset - 1)
        self.highest_offset_in_remote_storage = max(self.highest_offset_in_remote_storage, offset)

    def forget(self) -> None:
        """Wait for a new report of the highest remote offset: this replica has become leader or follower."""
        self.is_remote_log_known = False

    def on_remote_log_deleted(self) -> None:
        """Keep all local segments until they are copied again: the remote part is being deleted."""
        self.is_remote_log_known = False
        self.highest_offset_in_remote_storage = -1

    def truncate_to(self, end_offset: Offset) -> None:
        """Lower the highest remote offset below a truncated log's end; new records will follow there."""
        self.highest_offset_in_remote_storage = min(self.highest_offset_in_remote_storage, end_offset - 1)

    # -- the log start and the leader epochs

    def on_log_start_advanced(self, *, is_in_local_part: bool) -> None:
        """Remember whether the log start has risen into the local part and must become durable."""
        self._has_start_in_local_part = is_in_local_part

    def checkpoint_start_in_local_part(self) -> None:
        """Make a log start in the local part durable, before leader epochs that begin there are written.

        When a tiered log is opened, such epochs look like epochs that were rebuilt from the local part.
        """
        if self._has_start_in_local_part and self.remote_log_enabled:
            self._offsets.checkpoint_log_start()
            self._has_start_in_local_part = False
