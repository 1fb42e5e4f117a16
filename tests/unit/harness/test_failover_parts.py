"""The parts of the failover run that can be tested without a cluster."""

from __future__ import annotations

import itertools
from pathlib import Path

from tests.harness.failover.faults import FaultKind, Target, schedule
from tests.harness.failover.replicas import find_differences
from tidelog.local_cluster.layout import new_layout, read_layout


def _log(node: Path, name: str, data: bytes) -> None:
    folder = node / "data" / "topic-0"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def test_replicas_with_different_segment_boundaries_are_equal(tmp_path: Path) -> None:
    _log(tmp_path / "node-1", "00000000000000000000.log", b"abcd")
    _log(tmp_path / "node-2", "00000000000000000000.log", b"ab")
    _log(tmp_path / "node-2", "00000000000000000002.log", b"cd")
    folders = [tmp_path / "node-1" / "data", tmp_path / "node-2" / "data"]
    assert find_differences(folders, "topic", 1) == []


def test_a_replica_with_a_differing_byte_is_reported(tmp_path: Path) -> None:
    _log(tmp_path / "node-1", "00000000000000000000.log", b"abcd")
    _log(tmp_path / "node-2", "00000000000000000000.log", b"abxd")
    [line] = find_differences([tmp_path / "node-1" / "data", tmp_path / "node-2" / "data"], "topic", 1)
    assert line.startswith("topic-0: node-1: 4 B") and "node-2: 4 B" in line


def test_each_kind_of_fault_affects_controller_and_leader_before_it_repeats() -> None:
    kinds = (FaultKind.KILL, FaultKind.PAUSE, FaultKind.ISOLATION)
    faults = list(itertools.islice(schedule(7, kinds, duration_s_min=1, duration_s_max=2), 6))
    assert {(fault.kind, fault.target) for fault in faults} == set(
        itertools.product(kinds, (Target.CONTROLLER, Target.LEADER))
    )
    assert faults == list(itertools.islice(schedule(7, kinds, duration_s_min=1, duration_s_max=2), 6))


def test_a_layout_is_read_as_written(tmp_path: Path) -> None:
    layout = new_layout(tmp_path / "cluster", 3, settings={"num.partitions": "4"})
    layout.write()
    loaded_layout = read_layout(tmp_path / "cluster")
    assert loaded_layout == layout
    first = loaded_layout.properties(loaded_layout.node(1))
    assert first["num.partitions"] == "4" and first["min.insync.replicas"] == "2"
    assert len({(node.port, node.controller_port) for node in loaded_layout.nodes}) == 3
