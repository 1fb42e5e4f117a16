"""The pytest fixtures as a project uses them: scopes, options by a marker, topics, and time."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.waiting import wait_until
from tidelog.protocol.ids import TopicPartition
from tidelog.testing.embedded import EmbeddedCluster
from tidelog.testing.movable_clock import MovableClock
from tidelog.testing.plain_imports import PlainImports

TIDES = TopicPartition("tides", 0)
PROJECT = """
import asyncio

import pytest

from tidelog import Admin

pytestmark = pytest.mark.tidelog(topics={"tides": 3})
SERVERS = []


def partitions(cluster):
    async def request():
        options = cluster.client_settings().tidelog
        async with Admin(options.pop("bootstrap_servers"), **options) as admin:
            return {name: topic.partition_count for name, topic in (await admin.list_topics()).items()}

    return asyncio.run(request())


@pytest.mark.parametrize("run", [1, 2])
def test_module_scope(tidelog_module_broker, run):
    SERVERS.append(tidelog_module_broker.bootstrap_servers)
    assert len(set(SERVERS)) == 1
    assert partitions(tidelog_module_broker) == {"tides": 3}


def test_session_scope(tidelog_session_broker):
    assert partitions(tidelog_session_broker) == {"everywhere": 1}


@pytest.mark.tidelog(topics=["waves"], config={"num.partitions": "7"})
def test_function_scope(tidelog_broker):
    assert tidelog_broker.node.config.num_partitions == 7
    assert partitions(tidelog_broker) == {"waves": 1}


def test_three_nodes(tidelog_cluster):
    assert len(tidelog_cluster.nodes) == 3
    assert partitions(tidelog_cluster) == {"tides": 3}


def test_tiered(tidelog_tiered_broker):
    assert tidelog_tiered_broker.node.remote is not None
    assert tidelog_tiered_broker.run(lambda node: dict(node.services.image().topic_configs("tides"))) == {
        "remote.storage.enable": "true"
    }


def test_secured(tidelog_secured_broker):
    assert tidelog_secured_broker.client_settings().protocol == "SASL_SSL"
    assert partitions(tidelog_secured_broker) == {"tides": 3}


@pytest.mark.tidelog(colour="blue")
def test_wrong_option(tidelog_broker):
    pass
"""
CONFTEST = """
import pytest


@pytest.fixture(scope="session")
def tidelog_session_options():
    return {"topics": ["everywhere"]}
"""


def test_a_project_chooses_scope_nodes_tier_security_and_topics(tmp_path: Path) -> None:
    (tmp_path / "test_project.py").write_text(PROJECT)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--strict-markers"]
    if "PYTEST_DISABLE_PLUGIN_AUTOLOAD" in os.environ:
        command += ["-p", "tidelog.testing.pytest_plugin"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "7 passed, 1 error" in done.stdout, done.stdout
    assert "marker tidelog: unknown option colour; allowed are: nodes, config" in done.stdout


def test_retention_deletes_records_when_time_has_advanced() -> None:
    with EmbeddedCluster() as cluster:
        cluster.create_topics({"tides": 1}, {"retention.ms": "604800000"})
        produce_one(cluster)
        cluster.advance_time(timedelta(days=6))
        assert log_start_offset(cluster) == 0
        cluster.advance_time(timedelta(days=1, minutes=1))
        wait_until(lambda: log_start_offset(cluster) == 1)


def produce_one(cluster: EmbeddedCluster) -> None:
    import confluent_kafka

    producer = confluent_kafka.Producer(cluster.client_settings().confluent_kafka)
    producer.produce("tides", b"high")
    assert producer.flush(30) == 0


def log_start_offset(cluster: EmbeddedCluster) -> int:
    return cluster.run(lambda node: node.services.replicas.partition(TIDES).log.log_start_offset)


def test_a_clock_only_advances_and_monotonic_time_does_not_jump() -> None:
    clock = MovableClock()
    wall_ms, monotonic_ms = clock.wall_ms(), clock.monotonic_ms()
    clock.advance(timedelta(hours=1))
    assert clock.wall_ms() - wall_ms >= 3_600_000
    assert clock.monotonic_ms() - monotonic_ms < 3_600_000
    with pytest.raises(ValueError, match="time can only advance"):
        clock.advance(timedelta(seconds=-1))


def test_the_first_use_of_the_fixture_imports_nothing_that_a_plain_broker_does_not_need() -> None:
    program = (
        "import gc, sys\n"
        "from tidelog.testing.pytest_plugin import _cluster_class\n"
        "with _cluster_class()(): pass\n"
        "print(gc.isenabled(), gc.get_freeze_count(), *sys.modules)\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    is_enabled, frozen, *modules = done.stdout.split()
    assert (is_enabled, frozen) == ("True", "0")
    unneeded = ("cryptography", "tidelog.clients.admin.admin", "tidelog.broker.backup", "numpy", "aiohttp")
    assert [name for name in unneeded if name in modules] == []


def test_the_finder_finds_only_this_package() -> None:
    finder = PlainImports()
    specification = finder.find_spec("tidelog.broker", __import__("tidelog").__path__)
    assert specification is not None and type(specification.loader).__name__ == "SourceFileLoader"
    assert finder.find_spec("tidelogger") is None
