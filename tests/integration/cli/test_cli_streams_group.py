"""`tidelog group` with a streams group: list, describe, reset-offsets and delete."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.cli import tidelog_failure, tidelog_output
from tests.support.groups.streams_members import WORD_COUNT
from tests.support.network.raw_client import RawClient
from tests.support.waiting import wait_until
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from tidelog.testing.embedded import EmbeddedCluster

SETTINGS = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
}


class Application:
    """A streams group with one member, driven by single heartbeats."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        host, port = servers.split(":")
        self.client = RawClient(host, int(port))

    def has_coordinator(self) -> bool:
        """Return whether the group has a coordinator; the first request creates its topic."""
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=("words",))
        (coordinator,) = self.client.send_request(request, 6, FindCoordinatorResponse).coordinators
        return coordinator.error_code == ErrorCode.NONE

    def has_tasks(self) -> bool:
        """Join; return whether the member has tasks."""
        response = self._send(
            0,
            rebalance_timeout_ms=60_000,
            topology=WORD_COUNT,
            process_id="p",
            active_tasks=(),
            standby_tasks=(),
            warmup_tasks=(),
        )
        return bool(response.active_tasks)

    def leave(self) -> None:
        """Leave the group."""
        assert self._send(-1).error_code == ErrorCode.NONE

    def _send(self, epoch: int, **fields: object) -> StreamsGroupHeartbeatResponse:
        request = StreamsGroupHeartbeatRequest(group_id="words", member_id="m", member_epoch=epoch, **fields)  # type: ignore[arg-type]
        return self.client.send_request(request, 0, StreamsGroupHeartbeatResponse)

    def run(self, *arguments: str) -> str:
        """Run a command of `tidelog group`; return its output."""
        return tidelog_output("group", *arguments, bootstrap=self.servers)


@pytest.fixture(scope="module")
def application() -> Iterator[Application]:
    """Run a node with the source topic, and an application whose member has tasks."""
    with EmbeddedCluster(config=SETTINGS) as cluster:
        servers = cluster.bootstrap_servers
        tidelog_output("topic", "create", "lines", "--partitions", "2", bootstrap=servers)
        tidelog_output("produce", "lines", stdin=b"a\nb\nc\n", bootstrap=servers)
        application = Application(servers)
        wait_until(application.has_coordinator)
        # The broker creates the internal topics, and a later heartbeat assigns the tasks.
        wait_until(application.has_tasks)
        yield application
        application.client.close()


def test_a_streams_group_is_listed_described_reset_and_deleted(application: Application) -> None:
    assert application.run("list", "--type", "streams", "--names").split() == ["words"]
    described = application.run("describe", "words")
    assert "type         streams" in described
    assert "assignor     sticky" in described
    (document,) = json.loads(application.run("describe", "words", "--json"))
    assert (document["type"], document["state"]) == ("streams", "Stable")
    (member,) = document["members"]
    assert (member["member_id"], member["protocol"]) == ("m", "streams")
    owned = {(each["topic"], each["partition"]) for each in document["partitions"]}
    assert owned == {(topic, index) for topic in ("lines", "words") for index in range(2)}
    assert "NON_EMPTY_GROUP" in tidelog_failure("group", "delete", "words", bootstrap=application.servers)
    application.leave()
    application.run("reset-offsets", "words", "--topic", "lines", "--to-earliest", "--execute")
    (document,) = json.loads(application.run("describe", "words", "--json"))
    assert [each["committed_offset"] for each in document["partitions"]] == [0, 0]
    assert document["total_lag"] == 3
    application.run("delete", "words")
    assert application.run("list", "--type", "streams", "--names").split() == []
