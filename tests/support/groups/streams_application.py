"""An application of Kafka Streams as its coordinator sees it, and the commands for its group."""

from __future__ import annotations

import json
from typing import Any, Final

from tests.support.cli import tidelog_failure, tidelog_output
from tests.support.network.raw_client import RawClient
from tests.support.waiting import wait_until
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.protocol.messages.streams_group_heartbeat import (
    CopartitionGroup,
    KeyValue,
    RequestTaskIds,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TopicInfo,
    Topology,
)

EAGER_STREAMS: Final = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
}
"""Settings of a broker that assigns tasks at once."""
PARTITIONS: Final = 2
"""The partitions of the topic `lines`, which the application reads."""
JOIN: Final = 0
LEAVE: Final = -1
MEMBER: Final = "6f1ed002-ab5f-4a0a-9ba1-6d1a4c1a0a11"


class Application:
    """A streams group that counts words, with one member, driven by single heartbeats."""

    def __init__(self, servers: str, name: str, changelog: str | None = None) -> None:
        self.servers = servers
        self.name = name
        self.repartition = f"{name}-words-repartition"
        self.changelog = changelog or f"{name}-counts-changelog"
        host, port = servers.split(":")
        self._client = RawClient(host, int(port))
        self._epoch = JOIN
        self._tasks: tuple[RequestTaskIds, ...] = ()

    def start(self) -> None:
        """Join, and wait until the member has all tasks and has reported that it runs them."""
        self._epoch, self._tasks = JOIN, ()
        wait_until(self._runs_all_tasks)

    def stop(self) -> None:
        """Leave the group."""
        self._epoch = LEAVE
        assert self._heartbeat().error_code == ErrorCode.NONE

    def close(self) -> None:
        """Close the connection of the member."""
        self._client.close()

    def has_coordinator(self) -> bool:
        """Return whether the group has a coordinator; the first request creates its topic."""
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=(self.name,))
        (coordinator,) = self._client.send_request(request, 6, FindCoordinatorResponse).coordinators
        return coordinator.error_code == ErrorCode.NONE

    def _runs_all_tasks(self) -> bool:
        response = self._heartbeat()
        if response.error_code != ErrorCode.NONE:
            return False
        self._epoch = response.member_epoch
        reported = self._tasks
        if response.active_tasks is not None:
            self._tasks = tuple(
                RequestTaskIds(subtopology_id=each.subtopology_id, partitions=each.partitions)
                for each in response.active_tasks
            )
        return sum(len(each.partitions) for each in reported) == 2 * PARTITIONS

    def _heartbeat(self) -> StreamsGroupHeartbeatResponse:
        joins = self._epoch == JOIN
        request = StreamsGroupHeartbeatRequest(
            group_id=self.name,
            member_id=MEMBER,
            member_epoch=self._epoch,
            rebalance_timeout_ms=60_000 if joins else -1,
            topology=self._topology() if joins else None,
            process_id="process" if joins else None,
            active_tasks=None if self._epoch == LEAVE else self._tasks,
            standby_tasks=None if self._epoch == LEAVE else (),
            warmup_tasks=None if self._epoch == LEAVE else (),
        )
        return self._client.send_request(request, 0, StreamsGroupHeartbeatResponse)

    def _topology(self) -> Topology:
        changelog = TopicInfo(
            name=self.changelog, topic_configs=(KeyValue(key="cleanup.policy", value="compact"),)
        )
        counts = Subtopology(
            subtopology_id="1",
            repartition_source_topics=(TopicInfo(name=self.repartition),),
            state_changelog_topics=(changelog,),
            copartition_groups=(CopartitionGroup(repartition_source_topics=(0,)),),
        )
        lines = Subtopology(
            subtopology_id="0", source_topics=("lines",), repartition_sink_topics=(self.repartition,)
        )
        return Topology(epoch=0, subtopologies=(lines, counts))

    def run(self, command: str, *arguments: str) -> str:
        """Run a command for this group; return its output."""
        return tidelog_output("streams-group", command, self.name, *arguments, bootstrap=self.servers)

    def failure(self, command: str, *arguments: str, code: int = 1) -> str:
        """Run a command for this group that fails; return its errors."""
        return tidelog_failure(
            "streams-group", command, self.name, *arguments, code=code, bootstrap=self.servers
        )

    def describe(self) -> dict[str, Any]:
        """Return the description of the group."""
        (document,) = json.loads(self.run("describe", "--json"))
        described: dict[str, Any] = document
        return described

    def committed(self) -> dict[str, int | None]:
        """Return the committed offset of each partition of `lines`, and of the repartition topic."""
        return {
            f"{each['topic']}-{each['partition']}": each["committed_offset"]
            for each in self.describe()["partitions"]
        }

    def topics(self) -> set[str]:
        """Return the internal topics that exist."""
        names = tidelog_output("topic", "list", "--names", bootstrap=self.servers).split()
        return {self.repartition, self.changelog} & set(names)
