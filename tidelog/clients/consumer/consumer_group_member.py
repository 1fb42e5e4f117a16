"""A consumer's membership in a consumer group of the new protocol (shell, KIP-848).

A task sends the heartbeats. The assignment changes and the listener is called only inside `advance`, while
the application waits in `poll`: first the partitions that are not assigned any more are revoked, with their
positions committed, then the new ones are added. An application that does not poll in `max_poll_interval_ms`
leaves the group.
"""

from __future__ import annotations

from tidelog.base.randomness import new_uuid
from tidelog.clients.consumer.group_ports import GroupPorts
from tidelog.clients.consumer.owned_partitions import OwnedPartitions
from tidelog.clients.groups.consumer_membership import (
    ConsumerMembership,
    MemberState,
    PartitionIds,
    by_topic,
)
from tidelog.clients.groups.group_heartbeats import GroupHeartbeats, HeartbeatExchange, HeartbeatPorts
from tidelog.clients.groups.rebalance_listener import RebalanceListener
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


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
        self._owned = OwnedPartitions(ports.assigned)
        self._topics: frozenset[str] | None = None
        self._pattern: str | None = None
        self._heartbeats = GroupHeartbeats(
            HeartbeatPorts(client=client, lookup=ports.lookup, timeouts=config, on_change=ports.on_change),
            self.membership,
            HeartbeatExchange(
                kind="group",
                response_type=ConsumerGroupHeartbeatResponse,
                is_subscribed=lambda: self._topics is not None,
                request=self._request,
                on_response=self._on_response,
            ),
        )
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
        """Subscribe to these topics; the next heartbeat joins the group or sends the change."""
        self._subscribe(topics, None)

    def subscribe_pattern(self, pattern: str) -> None:
        """Subscribe to the topics that the coordinator finds with this pattern, instead of named ones."""
        self._subscribe(frozenset(), pattern)

    def _subscribe(self, topics: frozenset[str], pattern: str | None) -> None:
        if (topics, pattern) != (self._topics, self._pattern):
            self._topics, self._pattern = topics, pattern
            self._heartbeats.send_soon()

    # --- in poll --------------------------------------------------------------------------

    async def advance(self) -> None:
        """Revoke and add partitions as assigned, or commit periodically.

        Errors: fatal errors of the coordinator, and errors that the listener raises.
        """
        self._heartbeats.on_poll()
        error = self._heartbeats.take_error()
        if error is not None:
            raise error
        membership = self.membership
        if membership.state in (MemberState.LOST, MemberState.LEFT):
            await self._owned.revoke(self._owned.partitions, lost=True)
            if membership.state in (MemberState.LOST, MemberState.LEFT):
                membership.on_abandoned()
                self._heartbeats.send_soon()
            return
        wanted = self._wanted()
        if wanted is not None and set(wanted) != set(self._owned.partitions):
            await self._apply(wanted)
        membership.on_applied()
        self._ports.committer.auto_commit_periodically()

    def _wanted(self) -> list[TopicPartition] | None:
        """Return the assigned partitions; None until the names of all their topics are known."""
        metadata, updater = self._ports.client.metadata, self._ports.client.updater
        wanted, unknown = [], []
        for topic_id, indexes in self.membership.assigned.items():
            name = metadata.topic_name(topic_id)
            if name is None:
                unknown.append(topic_id)
            else:
                wanted += [TopicPartition(name, index) for index in indexes]
        # With a pattern, only the coordinator knows the names of the subscribed topics.
        updater.find_names(unknown if self._pattern is not None else ())
        if unknown:
            updater.request_update()
            return None
        return wanted

    async def _apply(self, wanted: list[TopicPartition]) -> None:
        """Revoke the partitions that are not in `wanted`, and then read the others."""
        before = self._owned.partitions
        revoked = [partition for partition in before if partition not in set(wanted)]
        try:
            if revoked:
                deadline_ms = self._ports.client.now_ms() + self._ports.config.request_timeout_ms
                await self._ports.committer.auto_commit_now(deadline_ms)
                await self._owned.revoke(revoked, lost=False)
        finally:
            if self.membership.is_member:
                # Also after an error of the listener: no other member reads these partitions.
                self._owned.assign(wanted)
                self.membership.on_applied()
                if self._pattern is not None:
                    self._ports.client.updater.set_topics({partition.topic for partition in wanted})
            self._heartbeats.send_soon()
            self._ports.on_change()
        added = [partition for partition in wanted if partition not in set(before)]
        await self._owned.on_assigned(added)

    async def close(self, timeout_ms: int) -> None:
        """Commit (with `enable_auto_commit`), revoke all partitions and leave the group."""
        deadline_ms = self._ports.client.now_ms() + timeout_ms
        self._ports.client.updater.on_update.remove(self._on_metadata)
        self._ports.client.updater.find_names(())
        try:
            if self.membership.is_member:
                await self._ports.committer.auto_commit_now(deadline_ms)
            await self._owned.revoke(self._owned.partitions, lost=not self.membership.is_member)
        finally:
            await self._heartbeats.close(max(1, deadline_ms - self._ports.client.now_ms()))
            self._ports.committer.set_membership(None)

    # --- heartbeats -----------------------------------------------------------------------

    def _request(self, now_ms: int) -> ConsumerGroupHeartbeatRequest:
        topics = self._topics or frozenset()
        return self.membership.request(topics, self._owned_ids(), now_ms, pattern=self._pattern)

    def _on_response(self, response: ConsumerGroupHeartbeatResponse, now_ms: int) -> None:
        self.membership.on_response(response, now_ms)
        if not self.membership.is_member or self.membership.assigned != self._owned_ids():
            self._ports.on_change()

    def _owned_ids(self) -> PartitionIds:
        metadata = self._ports.client.metadata
        return by_topic((metadata.topic_id(each.topic), each.partition) for each in self._owned.partitions)

    def _on_metadata(self) -> None:
        """Let `poll` apply an assignment whose topics were unknown."""
        if self.membership.assigned != self._owned_ids():
            self._ports.on_change()
