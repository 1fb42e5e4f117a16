"""Commits a consumer's positions (shell): on demand, periodically, before rebalances and at the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from tidelog.clients.config.client_config import ConsumerConfig
from tidelog.clients.groups.committed_offsets import commit_once
from tidelog.clients.groups.committing_member import CommittingMember
from tidelog.clients.groups.coordinator_lookup import CoordinatorLookup
from tidelog.clients.groups.group_offsets import ConsumerGroupMetadata, OffsetAndMetadata
from tidelog.clients.metadata.cluster_client import ClusterClient
from tidelog.clients.transport.failures import failure
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition

_log = logging.getLogger("tidelog.clients.group")
Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class OffsetCommitter:
    """Commits the offsets of one consumer, as a member of its group or without a membership.

    `positions` returns the positions after the records that the application has received.
    """

    def __init__(
        self,
        client: ClusterClient,
        config: ConsumerConfig,
        lookup: CoordinatorLookup,
        positions: Callable[[], dict[TopicPartition, OffsetAndMetadata]],
    ) -> None:
        self._membership: CommittingMember | None = None
        self._client = client
        self._config = config
        self._lookup = lookup
        self._positions = positions
        self._next_auto_ms: int | None = None
        self._auto_task: asyncio.Task[None] | None = None
        self._last_auto: dict[TopicPartition, OffsetAndMetadata] = {}

    def set_membership(self, membership: CommittingMember | None) -> None:
        """Commit as this member; None if the consumer uses `assign` or has left its group."""
        self._membership = membership

    async def commit(self, offsets: Offsets, deadline_ms: int) -> None:
        """Commit offsets; retry after retriable errors until `deadline_ms`.

        Errors: KafkaError(REBALANCE_IN_PROGRESS) while the group rebalances; ILLEGAL_GENERATION,
        UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID if this consumer is not a member any more. Another member may
        then read the records again.
        """
        attempt = 0
        remaining = dict(offsets)
        self._last_auto = {}  # these offsets may differ from the positions
        error: KafkaError | None = None
        while remaining:
            try:
                member = self._current_member()
                # The lookup of the coordinator may wait for a connection without a deadline.
                async with asyncio.timeout(max(0, deadline_ms - self._client.now_ms()) / 1000):
                    codes = await commit_once(self._lookup, remaining, member, deadline_ms)
                error = self._retriable_error(codes, member)
            except TimeoutError:
                text = f"commit to group {self._lookup.key!r} timed out"
                raise error or KafkaError(ErrorCode.REQUEST_TIMED_OUT, text) from None
            except KafkaError as caught:
                error, codes = caught, {}
                if not error.code.retriable:
                    raise
            if error is None:
                return
            remaining = {tp: at for tp, at in remaining.items() if codes.get(tp) is not ErrorCode.NONE}
            delay_ms = self._client.backoff.delay_ms(attempt, self._client.environment.rng)
            if self._client.now_ms() + delay_ms >= deadline_ms:
                raise error
            await asyncio.sleep(delay_ms / 1000)
            attempt += 1

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the group, generation and member that read the polled records.

        Raise KafkaError(UNKNOWN_MEMBER_ID) if the consumer is not a member of the group.
        """
        group_id, membership = self._lookup.key, self._membership
        if membership is None:
            return ConsumerGroupMetadata(group_id)
        if membership.reading_generation < 0:
            # Offsets without a member would be accepted, although another member may have the partitions now.
            text = f"this consumer is not a member of group {group_id!r}"
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, text)
        # Not a newer generation: it may have assigned the partitions to other members.
        generation = membership.reading_generation
        return ConsumerGroupMetadata(group_id, generation, membership.member_id, membership.group_instance_id)

    def auto_commit_periodically(self) -> None:
        """Start a commit in the background if `auto_commit_interval_ms` has passed."""
        if not self._config.enable_auto_commit:
            return
        now_ms = self._client.now_ms()
        if self._next_auto_ms is None:
            self._next_auto_ms = now_ms + self._config.auto_commit_interval_ms
        if now_ms < self._next_auto_ms or (self._auto_task is not None and not self._auto_task.done()):
            return
        self._next_auto_ms = now_ms + self._config.auto_commit_interval_ms
        offsets = self._positions()
        if offsets and offsets != self._last_auto:
            self._auto_task = asyncio.create_task(self._auto_commit(offsets), name="tidelog-auto-commit")

    async def auto_commit_now(self, deadline_ms: int) -> None:
        """Commit before partitions are revoked; log a failure."""
        if not self._config.enable_auto_commit:
            return
        if self._auto_task is not None:
            await asyncio.wait({self._auto_task}, timeout=max(0, deadline_ms - self._client.now_ms()) / 1000)
        offsets = self._positions()
        if not offsets or offsets == self._last_auto:
            return
        try:
            await self.commit(offsets, deadline_ms)
            self._last_auto = offsets
        except KafkaError as error:
            _log.warning("Automatic commit of group %r failed: %s", self._lookup.key, error)

    async def close(self) -> None:
        """Stop a commit in progress."""
        if self._auto_task is not None:
            self._auto_task.cancel()
            await asyncio.wait({self._auto_task})

    async def _auto_commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        try:
            await self.commit(offsets, self._client.now_ms() + self._config.default_api_timeout_ms)
            self._last_auto = offsets
        except KafkaError as error:
            _log.warning("Automatic commit of group %r failed: %s", self._lookup.key, error)

    def _current_member(self) -> ConsumerGroupMetadata:
        group_id, membership = self._lookup.key, self._membership
        if membership is None:
            return ConsumerGroupMetadata(group_id)
        if not membership.may_commit:
            text = f"commit to group {group_id!r}: the group is rebalancing"
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, text)
        return ConsumerGroupMetadata(
            group_id, membership.generation, membership.member_id, membership.group_instance_id
        )

    def _retriable_error(
        self, codes: Mapping[TopicPartition, ErrorCode], member: ConsumerGroupMetadata
    ) -> KafkaError | None:
        """Return an error to retry after; None if all offsets are committed. Raise other errors."""
        retriable: KafkaError | None = None
        for topic_partition, code in codes.items():
            if code is ErrorCode.NONE:
                continue
            error = failure(code, f"commit of {topic_partition} to group {self._lookup.key!r}")
            membership = self._membership
            if membership is not None and membership.generation == member.generation:
                membership.on_commit_error(code)
            elif code is ErrorCode.STALE_MEMBER_EPOCH and membership is not None and membership.may_commit:
                retriable = error  # a heartbeat has changed the epoch meanwhile
                continue
            if not code.retriable:
                raise error
            retriable = error
        return retriable
