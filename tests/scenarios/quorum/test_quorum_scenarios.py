"""The transcripts of this folder; `tests.sim.quorum.scenario` describes their language."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sim.quorum.scenario import run_scenario

SCENARIOS = sorted(Path(__file__).parent.glob("*.txt"))


def test_scenarios_are_found() -> None:
    assert len(SCENARIOS) >= 10


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_transcript_passes(path: Path) -> None:
    run_scenario(path)
