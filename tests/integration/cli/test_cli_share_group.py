"""`tidelog share-group`: list, describe, offsets, reset-offsets, delete-offsets and delete."""

from __future__ import annotations

import json
from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.support.cli import tidelog, tidelog_failure, tidelog_output
from tests.support.network.raw_client import RawClient
from tests.support.waiting import wait_until
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from tidelog.testing.embedded import EmbeddedCluster

PARTITIONS = 2
FIRST = 2
END = 10
LEAVE = -1


class ShareGroup:
    """A share group with one member, driven by single heartbeats."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.name = f"harbour-{uuid4().hex[:6]}"
        host, port = servers.split(":")
        self._client = RawClient(host, int(port))
        self._epoch = 0
        self._assigned = 0

    def join(self) -> None:
        """Join with the member `m`, and wait until it has all partitions."""
        self._epoch = 0
        wait_until(self._has_all_partitions)

    def leave(self) -> None:
        """Remove the member."""
        self._epoch = LEAVE
        wait_until(self._heartbeat)

    def _has_all_partitions(self) -> bool:
        self._heartbeat()
        return self._assigned == PARTITIONS

    def _heartbeat(self) -> bool:
        request = ShareGroupHeartbeatRequest(
            group_id=self.name, member_id="m", member_epoch=self._epoch, subscribed_topic_names=("tides",)
        )
        response = self._client.send_request(request, 1, ShareGroupHeartbeatResponse)
        if response.error_code != ErrorCode.NONE:
            return False
        self._epoch = response.member_epoch
        topics = () if response.assignment is None else response.assignment.topic_partitions
        self._assigned = sum(len(topic.partitions) for topic in topics)
        return True

    def close(self) -> None:
        """Close the member's connection."""
        self._client.close()

    def run(self, command: str, *arguments: str) -> str:
        """Run a command for this group; return its output."""
        return tidelog_output("share-group", command, self.name, *arguments, bootstrap=self.servers)

    def failure(self, command: str, *arguments: str, code: int = 1) -> str:
        """Run a command for this group that fails; return its errors."""
        return tidelog_failure(
            "share-group", command, self.name, *arguments, code=code, bootstrap=self.servers
        )

    def describe(self) -> dict[str, list[dict[str, list[str]]]]:
        """Return the description of the group."""
        (document,) = json.loads(self.run("describe", "--json"))
        described: dict[str, list[dict[str, list[str]]]] = document
        return described

    def start_offsets(self) -> list[int | None]:
        """Return the start offsets of the group's partitions."""
        return [entry["start_offset"] for entry in json.loads(self.run("offsets", "--json"))]

    def states(self) -> dict[str, str]:
        """Return the states of all share groups."""
        listed = json.loads(tidelog_output("share-group", "list", "--json", bootstrap=self.servers))
        return {group["group_id"]: group["state"] for group in listed}


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """Run a broker with the topic `tides`: ten records in partition 0, of which the first two are deleted."""
    with EmbeddedCluster() as cluster:
        servers = cluster.bootstrap_servers
        tidelog_output("topic", "create", "tides", "-p", str(PARTITIONS), bootstrap=servers)
        lines = "\n".join(map(str, range(END)))
        tidelog_output("produce", "tides", "--partition", "0", stdin=lines, bootstrap=servers)
        tidelog_output("topic", "trim", "tides:0", "--before", str(FIRST), bootstrap=servers)
        # A consumer group, which also creates the topic of the coordinator.
        reset = ("group", "reset-offsets", "other", "--topic", "tides", "--to-latest", "--execute")
        tidelog_output(*reset, bootstrap=servers)
        yield servers


@pytest.fixture
def group(servers: str) -> Iterator[ShareGroup]:
    """Create a share group whose only member has left."""
    new_group = ShareGroup(servers)
    new_group.join()
    new_group.leave()
    yield new_group
    new_group.close()


def test_a_group_is_listed_and_described_with_its_members(group: ShareGroup) -> None:
    assert group.states()[group.name] == "Empty"
    group.join()
    assert group.states()[group.name] == "Stable"
    names = tidelog_output("share-group", "list", "--names", bootstrap=group.servers).splitlines()
    assert group.name in names
    text = group.run("describe")
    assert text.splitlines()[:2] == [f"group        {group.name}", "state        Stable"]
    assert text.splitlines()[-1].split()[0] == "m"
    assert group.describe()["members"][0]["partitions"] == ["tides-0", "tides-1"]
    group.leave()


def test_offsets_are_reset_only_with_execute(group: ShareGroup) -> None:
    planned = tidelog(
        "share-group",
        "reset-offsets",
        group.name,
        "--all-topics",
        "--to-earliest",
        bootstrap=group.servers,
    )
    assert [line.split()[-1] for line in planned.stdout.splitlines()[1:]] == [str(FIRST), "0"]
    assert "dry run: --execute resets 2 offsets" in planned.stderr
    group.run("reset-offsets", "--topic", "tides:0", "--to-earliest", "--execute")
    assert group.start_offsets()[0] == FIRST
    assert group.run("offsets").splitlines()[1].split() == ["tides", "0", "2", "0", str(END - FIRST)]
    group.run("reset-offsets", "--all-topics", "--to-latest", "--execute")
    assert group.start_offsets() == [END, 0]
    group.run("reset-offsets", "--topic", "tides", "--to-datetime", "2020-01-01T00:00:00", "--execute")
    assert group.start_offsets() == [FIRST, 0]


def test_a_group_with_members_is_not_changed(group: ShareGroup) -> None:
    group.join()
    text = group.failure("reset-offsets", "--all-topics", "--to-latest", "--execute", code=2)
    assert "it is Stable and has 1 member" in text
    assert "tidelog:" in group.failure("delete-offsets", "tides")
    assert "tidelog:" in group.failure("delete")
    group.leave()
    assert group.start_offsets()


def test_offsets_of_topics_and_groups_are_deleted(group: ShareGroup) -> None:
    assert group.run("delete-offsets", "tides") == "deleted the offsets of tides\n"
    assert group.start_offsets() == []
    assert group.run("delete") == f"deleted {group.name}\n"
    assert group.name not in group.states()
    for command in ("describe", "offsets", "delete"):
        assert group.name in group.failure(command)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--all-topics",), "give one of --to-earliest, --to-latest, --to-datetime"),
        (("--all-topics", "--to-latest", "--to-earliest"), "give one of"),
        (("--to-latest",), "give --topic or --all-topics"),
        (("--all-topics", "--to-datetime", "yesterday"), "--to-datetime 'yesterday': expected"),
    ],
)
def test_options_that_do_not_fit_are_refused(servers: str, arguments: tuple[str, ...], text: str) -> None:
    errors = tidelog_failure("share-group", "reset-offsets", "g", *arguments, code=2, bootstrap=servers)
    assert text in errors


def test_a_consumer_group_is_not_deleted(servers: str) -> None:
    assert "other" in tidelog_failure("share-group", "delete", "other", bootstrap=servers)
    assert "other" in tidelog_output("group", "list", bootstrap=servers)
