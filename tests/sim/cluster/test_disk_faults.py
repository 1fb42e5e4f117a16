"""Nodes whose disks fail or return other bytes end or repair themselves, and lose no acknowledged record."""

from __future__ import annotations

from tests.sim.cluster.plan import FaultRates, Plan
from tests.sim.cluster.run import Run
from tidelog.local_cluster.layout import QUICK_TIMEOUTS


def timeline_of(seed: int, faults: FaultRates, flush_messages: int) -> str:
    """Run a seed with some faults, and return its timeline."""
    config = {**QUICK_TIMEOUTS, "log.flush.interval.messages": str(flush_messages)}
    run = Run(seed, Plan(faults=faults, safety_s=5.0, config=config, pause_of_producers_s=0.2))
    outcome = run.execute()
    assert outcome.acknowledged == outcome.sent > 0
    return "\n".join(run.simulation.trace.timeline)


def test_a_node_whose_disk_fails_stops_and_returns_with_all_acknowledged_records() -> None:
    timeline = timeline_of(1, FaultRates(io_errors=2.0), flush_messages=1)
    assert "Input/output error" in timeline
    assert "     has failed: " in timeline


def test_a_node_truncates_a_batch_whose_bytes_have_changed_and_copies_it_again() -> None:
    assert "is wrong: the log is truncated there" in timeline_of(
        1, FaultRates(damage=1.0), flush_messages=1_000_000
    )
