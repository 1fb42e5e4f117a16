"""`tidelog quorum` with one node and with three."""

from __future__ import annotations

import json
from collections.abc import Iterator
from uuid import UUID

import pytest

from tests.support.cli import tidelog_failure, tidelog_output
from tidelog.clients.admin.admin import Admin
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.testing.embedded import EmbeddedCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(nodes=3) as cluster:
        yield cluster


def test_a_single_node_is_a_quorum_of_one() -> None:
    with EmbeddedCluster() as cluster:
        shown = json.loads(
            tidelog_output("quorum", "describe", "--json", bootstrap=cluster.bootstrap_servers)
        )
        assert (shown["leader_id"], [voter["replica_id"] for voter in shown["voters"]]) == (1, [1])
        assert "leader            1" in tidelog_output(
            "quorum", "describe", "--status", bootstrap=cluster.bootstrap_servers
        )


def test_three_voters_are_shown_with_their_lag(cluster: EmbeddedCluster) -> None:
    servers = cluster.bootstrap_servers
    shown = json.loads(tidelog_output("quorum", "describe", "--json", bootstrap=servers))
    assert sorted(voter["replica_id"] for voter in shown["voters"]) == [1, 2, 3]
    assert all(voter["endpoints"] for voter in shown["voters"])
    status = tidelog_output("quorum", "describe", bootstrap=servers)
    assert f"leader epoch      {shown['leader_epoch']}" in status
    assert status.count("(CONTROLLER://127.0.0.1:") == 3
    assert max(map(len, status.splitlines())) <= 80
    table = tidelog_output("quorum", "describe", "--replication", bootstrap=servers).splitlines()
    assert table[0] == f"NODE            {shown['leader_id']}"
    assert [line.split()[1] for line in table if line.startswith("STATUS")] == [
        "leader",
        "follower",
        "follower",
    ]
    assert table.count("") == 2
    assert max(map(len, table)) <= 80


def test_describe_shows_one_view(cluster: EmbeddedCluster) -> None:
    line = tidelog_failure(
        "quorum", "describe", "--status", "--replication", code=2, bootstrap=cluster.bootstrap_servers
    )
    assert "exclude each other" in line


def test_static_voters_cannot_be_changed(cluster: EmbeddedCluster) -> None:
    line = tidelog_failure(
        "quorum",
        "remove-controller",
        "2",
        "AAAAAAAAAAAAAAAAAAAD6Q",
        bootstrap=cluster.bootstrap_servers,
    )
    assert "[UNSUPPORTED_VERSION]" in line
    line = tidelog_failure("quorum", "remove-controller", "2", "x", code=2)
    assert line.startswith("tidelog: DIRECTORY-ID 'x'")


async def test_the_admin_client_names_voters_and_observers(cluster: EmbeddedCluster) -> None:
    async with Admin(cluster.bootstrap_servers) as admin:
        quorum = await admin.describe_metadata_quorum()
        assert {voter.replica_id for voter in quorum.voters} == {1, 2, 3}
        assert quorum.observers == ()
        leader = next(voter for voter in quorum.voters if voter.replica_id == quorum.leader_id)
        assert leader.log_end_offset >= quorum.high_watermark > 0
        assert leader.last_fetch_timestamp_ms is not None
        assert leader.directory_id is None, "static voters have no directory id"
        with pytest.raises(KafkaError) as error:
            await admin.remove_raft_voter(leader.replica_id, UUID(int=1234))
        assert error.value.code is ErrorCode.UNSUPPORTED_VERSION
