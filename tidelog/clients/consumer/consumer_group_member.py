"""A consumer's membership in a consumer group of the new protocol (shell, KIP-848).

A task sends the heartbeats. The assignment changes and the listener is called only inside `advance`, while
the application waits in `poll`: first the partitions that are not assigned any more are revoked, with their
positions committed, then the new ones are added. An application that does not poll in `max_poll_interval_ms`
leaves the group.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress

from tidelog.base.randomness import new_uuid
from tidelog.clients.consumer.group_ports import GroupPorts
from tidelog.clients.groups.consumer_membership import (
    ConsumerMembership,
    MemberState,
    PartitionIds,
    by_topic,
)
from tidelog.clients.groups.rebalance_listener import NoListener, RebalanceListener, await_result
from tidelog.clients.transport.failures import COORDINATOR_MOVED
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

_log = logging.getLogger("tidelog.clients.group")


class ConsumerGroupMember:
    """The group membership of one subscribed consumer; it joins after `subscribe`."""

    def __init__(self, ports: GroupPorts) -> None:
        client, config = ports.client, ports.config
        assert config.group_id is not None
        self.membership = ConsumerMembership(
            config.group_id,
            str(new_uuid(client.environment.rng)),
            group_instance_id=config.group_instance_id,
            rack=config.client_rack or None,
            assignor=config.group_remote_assignor,
            rebalance_timeout_ms=config.max_poll_interval_ms,
        )
        self._ports = ports
        self._listener: RebalanceListener = NoListener()
        self._topics: frozenset[str] | None = None
        self._error: KafkaError | None = None
        self._polled_ms = client.now_ms()
        self._wake = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name="tidelog-group-heartbeat")
        ports.committer.set_membership(self.membership)
        client.updater.on_update.append(self._on_metadata)

    @property
    def is_subscribed(self) -> bool:
        """Whether `subscribe` was called, also with no topics."""
        return self._topics is not None

    def set_listener(self, listener: RebalanceListener | None) -> None:
        """Call this listener from now on; None for no listener."""
        self._listener = NoListener() if listener is None else listener

    def subscribe(self, topics: frozenset[str]) -> None:
        """Subscribe to these topics; the next heartbeat joins the group or sends the change."""
        if topics != self._topics:
            self._topics = topics
            self._send_soon()

    # --- in poll --------------------------------------------------------------------------

    async def advance(self) -> None:
        """Revoke and add partitions as assigned, or commit periodically.

        Errors: fatal errors of the coordinator, and errors that the listener raises.
        """
        self._polled_ms = self._ports.client.now_ms()
        error, self._error = self._error, None
        if error is not None:
            raise error
        membership = self.membership
        if membership.state in (MemberState.LOST, MemberState.LEFT):
            await self._revoke(self._ports.assigned.topic_partitions, lost=True)
            if membership.state in (MemberState.LOST, MemberState.LEFT):
                membership.on_abandoned()
                self._send_soon()
            return
        wanted = self._wanted()
        if wanted is not None and set(wanted) != set(self._ports.assigned.topic_partitions):
            await self._apply(wanted)
        membership.on_applied()
        self._ports.committer.auto_commit_periodically()

    def _wanted(self) -> list[TopicPartition] | None:
        """Return the assigned partitions; None until the names of all their topics are known."""
        wanted = []
        for topic_id, indexes in self.membership.assigned.items():
            name = self._ports.client.metadata.topic_name(topic_id)
            if name is None:
                self._ports.client.updater.request_update()
                return None
            wanted += [TopicPartition(name, index) for index in indexes]
        return wanted

    async def _apply(self, wanted: list[TopicPartition]) -> None:
        """Give up the partitions that are not in `wanted`, and then read the others."""
        before = self._ports.assigned.topic_partitions
        revoked = [partition for partition in before if partition not in set(wanted)]
        try:
            if revoked:
                deadline_ms = self._ports.client.now_ms() + self._ports.config.request_timeout_ms
                await self._ports.committer.auto_commit_now(deadline_ms)
                await self._revoke(revoked, lost=False)
        finally:
            if self.membership.is_member:
                # Also after an error of the listener: no other member reads these partitions.
                self._ports.assigned.set(wanted)
                self.membership.on_applied()
            self._send_soon()
            self._ports.on_change()
        added = [partition for partition in wanted if partition not in set(before)]
        await await_result(self._listener.on_partitions_assigned(added))

    async def _revoke(self, partitions: Iterable[TopicPartition], *, lost: bool) -> None:
        revoked = tuple(partitions)
        if not revoked:
            return
        try:
            on_revoked = self._listener.on_partitions_revoked
            if lost:
                # As in Kafka's client, also for listeners that do not inherit from RebalanceListener.
                on_revoked = getattr(self._listener, "on_partitions_lost", on_revoked)
            await await_result(on_revoked(revoked))
        finally:
            kept = [each for each in self._ports.assigned.topic_partitions if each not in set(revoked)]
            self._ports.assigned.set(kept)

    async def close(self, timeout_ms: int) -> None:
        """Commit (with `enable_auto_commit`), revoke all partitions and leave the group."""
        deadline_ms = self._ports.client.now_ms() + timeout_ms
        self._ports.client.updater.on_update.remove(self._on_metadata)
        try:
            if self.membership.is_member:
                await self._ports.committer.auto_commit_now(deadline_ms)
            await self._revoke(self._ports.assigned.topic_partitions, lost=not self.membership.is_member)
        finally:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            await self._leave(max(1, deadline_ms - self._ports.client.now_ms()))
            self._ports.committer.set_membership(None)

    # --- heartbeats (in their own task) ---------------------------------------------------

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            wait_ms = await self._step()
            if wait_ms > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_ms / 1000):
                        await self._wake.wait()

    async def _step(self) -> int:
        """Send a heartbeat if it is time; return the time until the next step in ms."""
        now_ms = self._ports.client.now_ms()
        idle_ms = self._ports.config.max_poll_interval_ms
        membership = self.membership
        if self._topics is None or membership.state not in (MemberState.JOINING, MemberState.MEMBER):
            return idle_ms
        until_idle_ms = self._polled_ms + idle_ms - now_ms
        if until_idle_ms <= 0:
            if membership.is_member:
                text = "Consumer of group %r leaves it: poll was not called for max_poll_interval_ms=%d"
                _log.warning(text, membership.group_id, idle_ms)
                await self._leave(self._ports.config.request_timeout_ms)
                self._ports.on_change()
            return idle_ms
        wait_ms = membership.next_heartbeat_ms(now_ms)
        if wait_ms > 0:
            return min(wait_ms, until_idle_ms)
        return await self._send(membership.request(self._topics, self._owned(), now_ms), now_ms)

    async def _send(self, request: ConsumerGroupHeartbeatRequest, now_ms: int) -> int:
        """Send one heartbeat; return the time until the next step in ms."""
        membership = self.membership
        try:
            response = await self._ports.lookup.request(
                request, ConsumerGroupHeartbeatResponse, now_ms + self._ports.config.default_api_timeout_ms
            )
            membership.on_response(response, self._ports.client.now_ms())
        except KafkaError as error:
            if not error.code.retriable:
                self._error = error
                self._ports.on_change()
                return self._ports.config.max_poll_interval_ms
            _log.info("Heartbeat of group %r failed: %s; retrying", membership.group_id, error)
            if error.code in COORDINATOR_MOVED:
                self._ports.lookup.forget()
            membership.request_heartbeat()
            return max(1, self._ports.client.backoff.delay_ms(0, self._ports.client.environment.rng))
        if not membership.is_member or membership.assigned != self._owned():
            self._ports.on_change()
        return membership.next_heartbeat_ms(self._ports.client.now_ms())

    async def _leave(self, timeout_ms: int) -> None:
        """Leave the group, and log a failure: the coordinator then removes the member after its session."""
        request = self.membership.leave_request()
        if request is None:
            return
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                deadline_ms = self._ports.client.now_ms() + timeout_ms
                await self._ports.lookup.request(request, ConsumerGroupHeartbeatResponse, deadline_ms)
        except (KafkaError, TimeoutError) as error:
            text = str(error) or f"no response within {timeout_ms} ms"
            _log.info("Leaving group %r failed: %s", self.membership.group_id, text)

    # --- inside ---------------------------------------------------------------------------

    def _owned(self) -> PartitionIds:
        metadata = self._ports.client.metadata
        return by_topic(
            (metadata.topic_id(each.topic), each.partition) for each in self._ports.assigned.topic_partitions
        )

    def _send_soon(self) -> None:
        self.membership.request_heartbeat()
        self._wake.set()

    def _on_metadata(self) -> None:
        """Let `poll` apply an assignment whose topics were unknown."""
        if self.membership.assigned != self._owned():
            self._ports.on_change()
