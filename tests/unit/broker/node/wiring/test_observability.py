"""The parts of a node that observe it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tests.support.loops.both_loops import on_both_loops
from tests.support.waiting import eventually, remains
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.node.wiring.observability import NodeObservability
from tidelog.broker.observability.loop_stalls import INTERVAL_S

STALL = "tidelog_event_loop_stall_seconds_max"


def observability(clock: ManualClock, settings: Mapping[str, str]) -> NodeObservability:
    return NodeObservability(BrokerConfig({"node.id": "1", **settings}), clock)


def longest_stall_s(node: NodeObservability) -> float:
    (family,) = (family for family in node.metrics.families if family.name == STALL)
    ((_, value),) = family.values()
    assert isinstance(value, float)
    return value


@on_both_loops
async def test_stalls_of_the_event_loop_are_measured_for_the_metrics_endpoint() -> None:
    clock = ManualClock()
    node = observability(clock, {"metrics.port": "0"})
    await node.start()
    clock.now_ms += 500
    await eventually(lambda: longest_stall_s(node))
    assert longest_stall_s(node) == pytest.approx(0.5 - INTERVAL_S)
    await node.close()


@on_both_loops
async def test_a_node_whose_metrics_cannot_be_read_is_not_woken_to_measure_stalls() -> None:
    clock = ManualClock()
    node = observability(clock, {})
    await node.start()
    clock.now_ms += 500
    await remains(lambda: longest_stall_s(node) == 0, 2 * INTERVAL_S)
    await node.close()
