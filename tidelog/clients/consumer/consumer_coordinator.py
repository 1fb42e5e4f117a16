"""A consumer's membership in its group (shell): joins, changes the assignment and commits positions.

Every `poll` calls `advance`, which does not wait for JoinGroup and SyncGroup: a separate task sends them
between the polls. The listener is called and the assignment changes only inside `advance`, while the
application waits in `poll`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress

from tidelog.clients.consumer.group_ports import GroupPorts
from tidelog.clients.consumer.owned_partitions import OwnedPartitions
from tidelog.clients.groups.assignors import Assignment, PartitionRacks, RebalanceProtocol
from tidelog.clients.groups.assignors.cooperative_sticky import ownership_change
from tidelog.clients.groups.assignors.protocol import decode_assignment
from tidelog.clients.groups.group_assignment import (
    assign,
    member_subscriptions,
    rebalance_protocol,
    subscriptions,
)
from tidelog.clients.groups.heartbeater import Heartbeater
from tidelog.clients.groups.membership import Membership, MemberState, Step
from tidelog.clients.groups.rebalance_listener import RebalanceListener
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.join_group import JoinGroupResponse
from tidelog.protocol.messages.sync_group import SyncGroupResponse
from tidelog.protocol.registry import ApiKey

_log = logging.getLogger("tidelog.clients.group")


class ConsumerCoordinator:
    """The group membership of one subscribed consumer; it joins after `subscribe`."""

    def __init__(self, ports: GroupPorts) -> None:
        client, config = ports.client, ports.config
        assert config.group_id is not None
        self.membership = Membership(
            config.group_id,
            group_instance_id=config.group_instance_id,
            session_timeout_ms=config.session_timeout_ms,
            rebalance_timeout_ms=config.max_poll_interval_ms,
            heartbeat_interval_ms=config.heartbeat_interval_ms,
        )
        self._ports = ports
        self._strategies = tuple(config.partition_assignment_strategy)
        self._protocol = rebalance_protocol(self._strategies)
        self._owned = OwnedPartitions(ports.assigned)
        self._topics: frozenset[str] | None = None
        self._joined_topics: frozenset[str] | None = None
        self._last_assigned: tuple[TopicPartition, ...] | None = None
        self._group_topics: dict[str, int] | None = None
        self._group_racks: PartitionRacks | None = None
        """The racks that change the assignment; None if this member has no rack, as in Kafka."""
        self._join_task: asyncio.Task[Assignment] | None = None
        self._is_closed = False
        self._heartbeater = Heartbeater(client, config, ports.lookup, self.membership, ports.on_change)
        ports.committer.set_membership(self.membership)
        client.updater.on_update.append(self._on_metadata)

    @property
    def is_subscribed(self) -> bool:
        """Whether `subscribe` was called, also with no topics."""
        return self._topics is not None

    def set_listener(self, listener: RebalanceListener | None) -> None:
        """Call this listener from now on; None for no listener."""
        self._owned.set_listener(listener)

    def subscribe(self, topics: frozenset[str]) -> None:
        """Subscribe to these topics; the next `advance` joins the group."""
        if topics != self._topics:
            self._topics = topics
            self.membership.request_join("subscription has changed")

    async def advance(self) -> None:
        """Complete a join, start the next one, or commit periodically.

        Errors: fatal errors of the coordinator, and errors that the listener raises.
        """
        self._heartbeater.on_poll()
        error = self._heartbeater.take_error()
        if error is not None:
            raise error
        if self._join_task is not None and self._join_task.done():
            await self._complete_join()
        if self._join_task is None and self.membership.needs_join and self._topics is not None:
            await self._prepare_join()
            if self._is_closed:
                return  # by another task, while this one revoked partitions
            self._join_task = asyncio.create_task(self._join(), name="tidelog-join")
            self._join_task.add_done_callback(lambda task: self._ports.on_change())
        if self._join_task is None:
            self._ports.committer.auto_commit_periodically()

    async def close(self, timeout_ms: int) -> None:
        """Commit (with `enable_auto_commit`), revoke all partitions and leave the group."""
        deadline_ms = self._ports.client.now_ms() + timeout_ms
        self._is_closed = True
        if self._join_task is not None:
            self._join_task.cancel()
            with suppress(asyncio.CancelledError, KafkaError):
                await self._join_task
            self._join_task = None
            self._ports.lookup.disconnect()
        self.membership.on_join_interrupted()
        self._ports.client.updater.on_update.remove(self._on_metadata)
        try:
            if self.membership.state is MemberState.STABLE:
                await self._ports.committer.auto_commit_now(deadline_ms)
            await self._owned.revoke(self._owned.partitions, lost=self.membership.lost_partitions)
        finally:
            await self._heartbeater.close()
            if self.membership.leaves_on_close:
                left_ms = max(1, deadline_ms - self._ports.client.now_ms())
                await self._heartbeater.leave("the consumer is being closed", left_ms)
            self._ports.committer.set_membership(None)

    # --- before joining -------------------------------------------------------------------

    async def _prepare_join(self) -> None:
        """Revoke the partitions that have to be revoked before a join."""
        membership = self.membership
        if membership.lost_partitions:
            await self._owned.revoke(self._owned.partitions, lost=True)
            membership.on_lost_partitions_revoked()
            return
        if membership.state is MemberState.STABLE:
            deadline_ms = self._ports.client.now_ms() + self._ports.config.request_timeout_ms
            await self._ports.committer.auto_commit_now(deadline_ms)
        if self._protocol is RebalanceProtocol.EAGER:
            await self._owned.revoke(self._owned.partitions, lost=False)
        else:
            topics = self._topics or frozenset()
            unsubscribed = [tp for tp in self._owned.partitions if tp.topic not in topics]
            await self._owned.revoke(unsubscribed, lost=False)

    # --- joining (in its own task) --------------------------------------------------------

    async def _join(self) -> Assignment:
        attempt = 0
        while True:
            try:
                step, assignment = await self._join_once()
            except KafkaError as error:
                self.membership.on_join_interrupted()
                if not error.code.retriable:
                    raise
                _log.info("Join of group %r failed: %s; retrying", self.membership.group_id, error)
                step, assignment = Step.RETRY, None
            if assignment is not None:
                return assignment
            if step is Step.FIND_COORDINATOR:
                self._ports.lookup.forget()
            if step is not Step.REJOIN:
                delay_ms = self._ports.client.backoff.delay_ms(attempt, self._ports.client.environment.rng)
                await asyncio.sleep(delay_ms / 1000)
                attempt += 1

    async def _join_once(self) -> tuple[Step, Assignment | None]:
        """Send JoinGroup, then SyncGroup; return the next step, and the assignment after PROCEED."""
        deadline_ms = self._ports.client.now_ms() + self.membership.join_timeout_ms
        self._joined_topics = self._topics
        joined = await self._send_join(deadline_ms)
        step = self.membership.on_join_response(joined, self._ports.client.now_ms())
        if step is not Step.PROCEED:
            return step, None
        self._heartbeater.wake()
        self._group_topics = None
        assignments = await self._assign_all(joined) if self.membership.is_leader(joined) else {}
        if self.membership.state is not MemberState.SYNCING:
            return Step.REJOIN, None  # a heartbeat response has ended this generation
        synced = await self._send_sync(assignments, deadline_ms)
        if self.membership.state is not MemberState.SYNCING:
            return Step.REJOIN, None
        step = self.membership.on_sync_response(synced, self._ports.client.now_ms())
        if step is not Step.PROCEED:
            return step, None
        try:
            return step, decode_assignment(synced.assignment)
        except DecodeError as error:
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"cannot decode the assignment: {error}"
            ) from error

    async def _send_join(self, deadline_ms: int) -> JoinGroupResponse:
        membership = self.membership
        protocols = subscriptions(
            self._strategies,
            self._topics or (),
            self._owned.partitions,
            self._last_assigned,
            membership.generation,
            self._ports.config.client_rack,
        )
        # The request is built when the coordinator is connected: the membership is JOINING from then on.
        return await self._ports.lookup.request_for_version(
            ApiKey.JOIN_GROUP,
            lambda version: membership.join_request(protocols),
            JoinGroupResponse,
            deadline_ms,
            timeout_ms=membership.join_timeout_ms,
        )

    async def _send_sync(self, assignments: Mapping[str, bytes], deadline_ms: int) -> SyncGroupResponse:
        return await self._ports.lookup.request(
            self.membership.sync_request(assignments),
            SyncGroupResponse,
            deadline_ms,
            timeout_ms=self.membership.join_timeout_ms,
        )

    async def _assign_all(self, joined: JoinGroupResponse) -> dict[str, bytes]:
        """Assign the partitions of all subscribed topics, as the leader of the group."""
        try:
            members = member_subscriptions(joined)
        except DecodeError as error:
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"cannot decode a subscription: {error}"
            ) from error
        topics = {topic for subscription in members.values() for topic in subscription.topics}
        updater = self._ports.client.updater
        if not updater.policy.wants_all_topics and not topics <= self._ports.client.metadata.topics.keys():
            updater.set_topics(topics | (self._topics or frozenset()))
            updater.request_update()
            with suppress(TimeoutError, KafkaError):
                await updater.wait_for_update(
                    self._ports.client.now_ms() + self._ports.config.request_timeout_ms
                )
        self._group_topics = self._count_partitions(topics)
        racks = self._ports.client.metadata.racks(topics)
        self._group_racks = racks if self._ports.config.client_rack else None
        return assign(joined.protocol_name, self._group_topics, members, racks)

    def _count_partitions(self, topics: set[str]) -> dict[str, int]:
        known = self._ports.client.metadata.topics
        return {topic: known[topic].partition_count for topic in sorted(topics) if topic in known}

    # --- after joining --------------------------------------------------------------------

    async def _complete_join(self) -> None:
        """Apply the new assignment."""
        assert self._join_task is not None
        task, self._join_task = self._join_task, None
        assignment = task.result()
        if self.membership.state is not MemberState.STABLE:
            return  # the assignment was lost before `poll` was called; a new join follows
        self._last_assigned = assignment.partitions
        self.membership.on_assignment_applied()
        self._heartbeater.wake()
        change = ownership_change(self._owned.partitions, assignment.partitions)
        try:
            if change.revoked:
                await self._owned.revoke(change.revoked, lost=False)
        finally:
            # Also after an error of the listener: no other member reads these partitions.
            self._owned.assign(assignment.partitions)
            if self._protocol is RebalanceProtocol.COOPERATIVE and change.must_rejoin:
                self.membership.request_join("revoked partitions need a new owner")
            if self._joined_topics != self._topics:
                self.membership.request_join("subscription has changed")
            self._ports.on_change()
            await self._owned.on_assigned(change.added)

    def _on_metadata(self) -> None:
        """Join again, as the leader, if the group's topics or the racks of their replicas have changed."""
        if self._group_topics is None or self.membership.state is not MemberState.STABLE:
            return
        topics = set(self._group_topics) | (self._topics or frozenset())
        if self._count_partitions(topics) != self._group_topics:
            self.membership.request_join("partitions of subscribed topics have changed")
            self._ports.on_change()
        elif self._group_racks is not None and self._ports.client.metadata.racks(topics) != self._group_racks:
            self.membership.request_join("racks of replicas have changed")
            self._ports.on_change()
