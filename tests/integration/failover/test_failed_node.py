"""One of three nodes fails: killed, stopped, wiped. Clients of other authors only wait for a short time."""

from __future__ import annotations

import logging
import shutil

import pytest

from tests.support.nodes.three_nodes import ThreeNodes
from tests.support.waiting import wait_until
from tidelog.storage.directories.meta_properties import MetaPropertiesFile
from tidelog.storage.disk.os_files import OsFileSystem


def test_three_nodes_replicate_and_any_of_them_serves_admin_requests(three_nodes: ThreeNodes) -> None:
    for node_id in (1, 2, 3):
        admin = three_nodes.admin(node_id)
        assert {broker.id for broker in admin.list_topics(timeout=10).brokers.values()} == {1, 2, 3}
    three_nodes.create_topic("tides")
    leaders = {three_nodes.partition("tides", index).leader for index in range(3)}
    assert leaders == {1, 2, 3}
    values = [f"value {number}" for number in range(300)]
    three_nodes.produce("tides", values)
    assert sorted(three_nodes.read("tides", 300)) == sorted(values)


@pytest.mark.parametrize("clean", [False, True], ids=["killed", "stopped"])
def test_a_stopped_leader_returns_without_loss(three_nodes: ThreeNodes, clean: bool) -> None:
    three_nodes.create_topic("tides")
    before = [f"before {number}" for number in range(300)]
    three_nodes.produce("tides", before)
    stopped_node = three_nodes.partition("tides").leader
    (three_nodes.cluster.stop_node if clean else three_nodes.cluster.kill_node)(stopped_node)
    three_nodes.wait_for_leader_other_than("tides", stopped_node)
    meanwhile = [f"meanwhile {number}" for number in range(300)]
    three_nodes.produce("tides", meanwhile)
    three_nodes.cluster.start_node(stopped_node)
    three_nodes.wait_until_whole("tides")
    after = [f"after {number}" for number in range(300)]
    three_nodes.produce("tides", after)
    assert sorted(three_nodes.read("tides", 900)) == sorted(before + meanwhile + after)


def test_another_controller_becomes_active_after_a_kill(three_nodes: ThreeNodes) -> None:
    three_nodes.create_topic("before")
    controller = three_nodes.wait_for_controller()
    three_nodes.cluster.kill_node(controller)
    wait_until(lambda: three_nodes.controller() not in (None, controller))
    three_nodes.wait_for_leader_other_than("before", controller)
    three_nodes.cluster.start_node(controller)
    three_nodes.create_topic("after")
    assert set(three_nodes.partition("after").replicas) == {1, 2, 3}


def test_the_last_node_of_a_cluster_that_stops_does_not_wait_for_the_other_controllers(
    three_nodes: ThreeNodes, caplog: pytest.LogCaptureFixture
) -> None:
    """No controller can permit its controlled shutdown; before, it waited for the whole timeout."""
    caplog.set_level(logging.INFO)
    three_nodes.create_topic("tides")
    for node_id in (1, 2):
        three_nodes.cluster.kill_node(node_id)
    three_nodes.cluster.stop_node(3)
    assert "Controlled shutdown ends: a majority of the controllers cannot be reached" in caplog.text
    assert "Controlled shutdown did not complete" not in caplog.text


def test_an_empty_node_with_the_same_id_fetches_all_records(three_nodes: ThreeNodes) -> None:
    three_nodes.create_topic("tides")
    values = [f"value {number}" for number in range(600)]
    three_nodes.produce("tides", values)
    three_nodes.cluster.kill_node(3)
    wait_until(lambda: three_nodes.brokers() == {1, 2})
    data = three_nodes.cluster.data_dir / "node-3" / "data"
    identity = MetaPropertiesFile(OsFileSystem(), str(data)).read()
    shutil.rmtree(data)
    data.mkdir()
    MetaPropertiesFile(OsFileSystem(), str(data)).write(identity)
    three_nodes.cluster.start_node(3)
    three_nodes.wait_until_whole("tides")
    for stopped_node in (1, 2):
        three_nodes.cluster.stop_node(stopped_node)
        three_nodes.wait_for_leader_other_than("tides", stopped_node)
        three_nodes.cluster.start_node(stopped_node)
        three_nodes.wait_until_whole("tides")
    assert sorted(three_nodes.read("tides", 600)) == sorted(values)


def test_acks_all_is_refused_below_min_insync_replicas_and_acknowledged_records_stay(
    three_nodes: ThreeNodes,
) -> None:
    three_nodes.create_topic("tides", min_insync_replicas="2")
    three_nodes.produce("tides", ["a", "b", "c"])
    controller = three_nodes.wait_for_controller()
    others = [node_id for node_id in (1, 2, 3) if node_id != controller]
    three_nodes.cluster.stop_node(others[0])
    wait_until(lambda: len(three_nodes.partition("tides").isr) == 2)
    three_nodes.produce("tides", ["d", "e", "f"])
    three_nodes.cluster.start_node(others[0])
    three_nodes.wait_until_whole("tides")
    assert sorted(three_nodes.read("tides", 6)) == ["a", "b", "c", "d", "e", "f"]
