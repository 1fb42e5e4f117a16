"""A short failover run: load of three client libraries and each kind of fault; all guarantees hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.failover import firewall
from tests.harness.failover.faults import NETWORK_FAULTS, FaultKind
from tests.harness.failover.run import FailoverRun, Options
from tests.harness.soak import consumer_protocol_members, group_members
from tests.harness.soak.history import read_history

KINDS = {
    "crashes and restarts": (FaultKind.KILL, FaultKind.RESTART),
    "pauses": (FaultKind.PAUSE,),
    "isolation": tuple(sorted(NETWORK_FAULTS, key=lambda kind: kind.name)),
}
RUNS = [
    pytest.param("crashes and restarts"),
    pytest.param("pauses", marks=pytest.mark.long),
    pytest.param("isolation", marks=pytest.mark.long),
]


@pytest.mark.parametrize("name", RUNS)
async def test_acknowledged_records_survive_faults_of_a_cluster_under_load(name: str, tmp_path: Path) -> None:
    kinds = KINDS[name]
    if NETWORK_FAULTS & set(kinds) and (reason := firewall.reason_not_available()) is not None:
        pytest.skip(f"cannot cut connections between nodes on this machine: {reason}")
    messages: list[str] = []
    run = FailoverRun(Options(seconds=25, rate=60, kinds=kinds), tmp_path, messages.append)
    outcome = await run.run()
    assert outcome.problems == [], "\n".join([*outcome.problems, *messages])
    assert len(outcome.faults) >= 2
    assert outcome.findings.acknowledged > 1000
    committed = [
        event for event in read_history(tmp_path / "history.jsonl") if event[1:3] == ("commit", "ok")
    ]
    groups = {event.process.split("/")[0] for event in committed}
    assert groups == {group_members.GROUP, consumer_protocol_members.GROUP}


@pytest.mark.long
async def test_a_rolling_restart_under_load_causes_only_retries(tmp_path: Path) -> None:
    messages: list[str] = []
    run = FailoverRun(
        Options(seconds=15, rate=60, kinds=(FaultKind.ROLLING_RESTART,)), tmp_path, messages.append
    )
    outcome = await run.run()
    assert outcome.problems == [], "\n".join([*outcome.problems, *messages])
    assert {each.node_id for each in outcome.faults} == {1, 2, 3}
    assert outcome.findings.acknowledged > 1000
    assert outcome.findings.unknown == 0, "\n".join(messages)
