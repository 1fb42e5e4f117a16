"""A short soak run: mixed load of three client libraries and one kill -9; all guarantees hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.soak.run import Options, SoakRun


@pytest.mark.long
async def test_acknowledged_records_survive_kill_9_under_mixed_load(tmp_path: Path) -> None:
    options = Options(seconds=10, kill_every_s=6, quiet_s=3, rate=150)
    outcome = await SoakRun(options, tmp_path, lambda text: None).run()
    assert outcome.problems == []
    assert outcome.findings.kills == 1
    assert outcome.findings.acknowledged > 3000
    assert outcome.findings.in_log >= outcome.findings.acknowledged
