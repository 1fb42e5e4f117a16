"""Commits of offsets to the partitions of `__consumer_offsets` that this node leads.

Commits are batched: a partition appends the records of many commits together. A commit is completed when its
records are committed, or after `offsets.commit.timeout.ms` as COORDINATOR_NOT_AVAILABLE.

I/O: the StateLog. To be used from one event loop.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.broker.coordinators.groups.coordinator import GroupCoordinator
from tidelog.broker.coordinators.groups.offset_commands import CommitSender
from tidelog.broker.coordinators.groups.outcome import Writes
from tidelog.broker.coordinators.groups.services.prepared_commits import (
    PreparedCommit,
    prepare_commit,
    writes_of_view,
)
from tidelog.broker.coordinators.shared.append_batch import CompletionCallback
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import error_of_append
from tidelog.broker.coordinators.shared.shards import Shards
from tidelog.broker.scheduling.slices import Slices
from tidelog.cluster.image import TopicImage
from tidelog.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic
from tidelog.protocol.steps import Steps
from tidelog.protocol.views.offset_commit_view import CommitTopic, OffsetCommitRequestView


class OffsetCommitService:
    """Serves OffsetCommit."""

    def __init__(self, shards: Shards[GroupCoordinator], slices: Slices, metadata_bytes_max: int) -> None:
        """`metadata_bytes_max` is `offset.metadata.max.bytes`."""
        self._shards = shards
        self._slices = slices
        self._metadata_bytes_max = metadata_bytes_max

    def prepare(
        self, request: OffsetCommitRequest, topics: Iterable[OffsetCommitRequestTopic]
    ) -> Steps[PreparedCommit]:
        """Return the response and the records of a commit of `topics`, which have names and ids."""
        return prepare_commit(request, topics, self._shards.now(), self._metadata_bytes_max)

    def commit(
        self, sender: CommitSender, version: int, writes: Writes, on_completed: CompletionCallback
    ) -> None:
        """Commit offsets; call `on_completed` when they are committed, or with the error of the response.

        Raise KafkaError if the sender may not commit, or if this node does not serve the group.
        """
        try:
            self._commit(sender, version, self._shards.now(), writes, on_completed)
        finally:
            self._slices.release_later(*writes.arrays)

    def commit_view(
        self,
        view: OffsetCommitRequestView,
        topics: Iterable[tuple[TopicImage, CommitTopic]],
        version: int,
        on_completed: CompletionCallback,
    ) -> bool:
        """Do the same as `commit` for a small request, whose partitions all exist.

        Return False, and change nothing, if the metadata of an offset are too long.
        """
        now = self._shards.now()
        writes = writes_of_view(view.group_id, topics, now, self._metadata_bytes_max)
        if writes is None:
            return False
        self._commit(view, version, now, writes, on_completed)
        return True

    def _commit(
        self,
        sender: CommitSender,
        version: int,
        now: Moment,
        writes: Writes,
        on_completed: CompletionCallback,
    ) -> None:
        self._shards.active_shard(sender.group_id).perform_batched(
            lambda coordinator: coordinator.offsets.commit(sender, version, now, writes),
            lambda error: on_completed(error_of_append(error)),
        )
