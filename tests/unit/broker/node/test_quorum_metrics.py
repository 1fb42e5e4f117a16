"""Metrics of the quorum under Kafka's names."""

from __future__ import annotations

from tests.support.loops.both_loops import on_both_loops
from tests.support.nodes.quorum_nodes import QuorumNodes, quorum_nodes
from tests.support.waiting import eventually
from tidelog.broker.observability.exposition import Exposition


def read_metric(nodes: QuorumNodes, node_id: int, name: str) -> float:
    """Return the value of a metric in a scrape."""
    text, _ = Exposition(nodes.running[node_id].metrics).text()
    values = [line.split()[-1] for line in text.decode().splitlines() if line.startswith(name + " ")]
    assert len(values) == 1, f"{name} is reported {len(values)} times"
    return float(values[0])


@on_both_loops
async def test_a_quorum_reports_its_controller_epoch_and_offsets() -> None:
    async with quorum_nodes() as nodes:
        await nodes.start()
        await nodes.set("a", "1")
        leader = await nodes.wait_for_leader()
        # On a busy machine another election may follow: all that depends on the leader is read before a wait.
        state = 'kafka_server_raft_metrics_current_state{state="leader"}'
        assert read_metric(nodes, leader, state) == 1.0
        active = "kafka_controller_kafkacontroller_activecontrollercount"
        assert {each: read_metric(nodes, each, active) for each in nodes.running} == {
            each: float(each == leader) for each in nodes.running
        }
        for each in nodes.running:
            assert read_metric(nodes, each, "kafka_server_raft_metrics_current_leader") == leader
            assert (
                read_metric(nodes, each, "kafka_server_raft_metrics_current_epoch")
                == nodes.store(each).leadership.epoch
            )
            assert read_metric(nodes, each, "kafka_server_raft_metrics_number_of_voters") == 3
            assert (
                read_metric(nodes, each, "kafka_controller_kafkacontroller_newactivecontrollers_total") >= 1
            )
        end_offset = nodes.running[leader].raft.log.end_offset
        mark = "kafka_server_raft_metrics_high_watermark"
        await eventually(lambda: all(read_metric(nodes, each, mark) >= end_offset for each in nodes.running))
