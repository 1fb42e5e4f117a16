"""Which controllers run now, with controllers on real sockets."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping

import pytest

from tests.support.network.scripted_broker import scripted_brokers
from tidelog.broker.raft.quorum_probe import QuorumProbe
from tidelog.clients.config.environment import SystemEnvironment
from tidelog.clients.transport.connecting import ConnectionSettings
from tidelog.cluster.quorum.voter_set import Endpoint, ReplicaKey, Voter, VoterSet
from tidelog.local_cluster.ports import free_ports

SETTINGS = ConnectionSettings(
    client_id="1", max_response_bytes=1 << 20, request_timeout_ms=60_000, setup_timeout_ms=60_000
)


def probe_of(node_id: int, ports: Mapping[int, int]) -> QuorumProbe:
    """Return the probe of a node; the ports of the voters may be changed later."""

    def voters() -> VoterSet:
        return VoterSet.of(
            Voter(key=ReplicaKey(voter), endpoints=(Endpoint("CONTROLLER", "127.0.0.1", port),))
            for voter, port in ports.items()
        )

    environment = SystemEnvironment(random.Random(1))
    return QuorumProbe(node_id, environment, SETTINGS, voters, ("CONTROLLER",))


async def test_two_voters_that_refused_connections_once_are_reached_when_they_run_again() -> None:
    ports = dict(zip((1, 2, 3), free_ports(3), strict=True))
    probe = probe_of(1, ports)
    assert not await probe.reaches_majority()
    async with scripted_brokers(2) as controllers:
        ports.update(zip((2, 3), (each.port for each in controllers), strict=True))
        assert await probe.reaches_majority()


@pytest.mark.parametrize(("node_id", "reaches"), [(1, True), (9, False)], ids=["voter", "observer"])
async def test_a_voter_counts_as_one_of_the_majority_and_an_observer_does_not(
    node_id: int, reaches: bool
) -> None:
    async with scripted_brokers() as [controller]:
        first, third = free_ports(2)
        probe = probe_of(node_id, {1: first, 2: controller.port, 3: third})
        assert await probe.reaches_majority() is reaches


async def test_unknown_voters_and_a_node_that_is_the_only_voter_need_no_connection() -> None:
    assert await probe_of(1, {}).reaches_majority()
    assert await probe_of(1, {1: 1}).reaches_majority()
    assert len(asyncio.all_tasks()) == 1
