"""A Kafka Streams application counts exactly once while nodes of Tidelog are killed, paused and cut off."""

from __future__ import annotations

import os
from pathlib import Path

from tests.harness.failover import firewall
from tests.harness.failover.faults import FaultKind
from tests.harness.failover.run import FailoverRun, Options

JARS = Path(os.environ["TIDELOG_KAFKA_JARS"])


async def test_words_are_counted_exactly_once_during_faults(tmp_path: Path) -> None:
    kinds = [FaultKind.KILL, FaultKind.PAUSE]
    if (reason := firewall.reason_not_available()) is None:
        kinds.append(FaultKind.ISOLATION)
    else:
        print(f"no isolation of nodes: {reason}")
    messages: list[str] = []
    options = Options(seconds=45, rate=30, kinds=tuple(kinds), kafka_jars=JARS)
    outcome = await FailoverRun(options, tmp_path, messages.append).run()
    assert outcome.problems == [], "\n".join([*outcome.problems, *messages])
    assert outcome.words_counted is not None and outcome.words_counted > 500
    assert len(outcome.faults) >= 3
