"""A share consumer's membership (shell): a task sends the heartbeats.

An application that does not poll in `max_poll_interval_ms` leaves the group until it polls again.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.clients.config.share_config import ShareConsumerConfig
from tidelog.clients.groups.coordinator_lookup import CoordinatorLookup
from tidelog.clients.groups.group_heartbeats import GroupHeartbeats, HeartbeatExchange, HeartbeatPorts
from tidelog.clients.metadata.cluster_client import ClusterClient
from tidelog.clients.share_consumer.share_membership import MemberState, ShareMembership
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse


class ShareGroupMember:
    """The heartbeats of one share consumer. `on_change` is called when its assignment may have changed."""

    def __init__(
        self,
        client: ClusterClient,
        config: ShareConsumerConfig,
        membership: ShareMembership,
        on_change: Callable[[], None],
    ) -> None:
        self._client = client
        self._membership = membership
        self._on_change = on_change
        self._topics: frozenset[str] = frozenset()
        lookup = CoordinatorLookup(client, membership.group_id)
        self._heartbeats = GroupHeartbeats(
            HeartbeatPorts(client=client, lookup=lookup, timeouts=config, on_change=on_change),
            membership,
            HeartbeatExchange(
                kind="share group",
                response_type=ShareGroupHeartbeatResponse,
                is_subscribed=lambda: bool(self._topics),
                request=lambda now_ms: membership.request(self._topics, now_ms),
                on_response=self._on_response,
            ),
        )

    def subscribe(self, topics: frozenset[str]) -> None:
        """Subscribe to these topics; the next heartbeat joins the group or sends the change."""
        self._topics = topics
        self._heartbeats.send_soon()

    def on_poll(self) -> None:
        """Record that the application called `poll`. Raise the error of the last heartbeat, if any.

        If the coordinator has rejected the member, each call raises the error. After another one, the
        heartbeat is sent again.
        """
        self._heartbeats.on_poll()
        error = self._heartbeats.error
        if error is not None:
            if self._membership.state is not MemberState.FATAL:
                self._heartbeats.take_error()
                self._heartbeats.send_soon()
            raise error.with_traceback(None)
        if self._membership.state is MemberState.LEFT:
            self._membership.rejoin()
            self._heartbeats.send_soon()

    def assigned(self) -> list[TopicPartition]:
        """Return the assigned partitions of topics whose names are known; request unknown names."""
        partitions: list[TopicPartition] = []
        for topic_id, indexes in self._membership.assigned.items():
            name = self._client.metadata.topic_name(topic_id)
            if name is None:
                self._client.updater.request_update()
            else:
                partitions += [TopicPartition(name, index) for index in indexes]
        return partitions

    async def close(self, timeout_ms: int) -> None:
        """Stop the heartbeats, and leave the group."""
        await self._heartbeats.close(timeout_ms)

    def _on_response(self, response: ShareGroupHeartbeatResponse, now_ms: int) -> None:
        before = self._membership.assigned
        self._membership.on_response(response, now_ms)
        if self._membership.assigned != before:
            self._on_change()
