"""The load of the suite `groups`: members of all protocols at a broker of Tidelog."""

from __future__ import annotations

import os

import pytest

from benchmarks.kafka.case import STANDARD
from benchmarks.kafka.suites.groups import (
    MANY_GROUPS_METRICS,
    MANY_GROUPS_SETTINGS,
    METRICS,
    SETTINGS,
    group_cases,
)
from benchmarks.loads.groups import groups
from benchmarks.loads.many_groups import many_groups
from tidelog.testing.embedded import EmbeddedCluster

MEMBERS = 5


@pytest.mark.parametrize("protocol", ["classic", "consumer", "streams"])
def test_a_group_is_formed_rebalanced_and_commits(protocol: str) -> None:
    with EmbeddedCluster(config=SETTINGS) as cluster:
        cluster.create_topics({"grouped": MEMBERS})
        host, _, port = cluster.bootstrap_servers.rpartition(":")
        figures = groups(host, int(port), "grouped", MEMBERS, protocol, 0.05, [os.getpid()])
    assert {metric.key for metric in METRICS} <= figures.keys()
    assert figures["rebalance_ms"] > 0 and figures["commits_per_s"] > 0


def test_many_groups_form_send_heartbeats_and_commit() -> None:
    with EmbeddedCluster(config=MANY_GROUPS_SETTINGS) as cluster:
        cluster.create_topics({"grouped": 2})
        host, _, port = cluster.bootstrap_servers.rpartition(":")
        figures = many_groups(host, int(port), "grouped", 5, 2, 0.05, [os.getpid()])
    assert {metric.key for metric in MANY_GROUPS_METRICS} == figures.keys()
    assert figures["heartbeats_per_s"] > 0 and figures["commits_per_s"] > 0


def test_there_is_a_case_for_each_protocol_and_number_of_members_for_many_groups_and_for_a_load() -> None:
    assert [case.name for case in group_cases(STANDARD)] == [
        f"{protocol} protocol, {members} members"
        for protocol in ("classic", "consumer", "streams")
        for members in ("10", "100", "1,000")
    ] + [
        "1,000 groups, consumer protocol, 10 members each",
        "load of the group coordinator, 1,000,000 commits",
    ]
