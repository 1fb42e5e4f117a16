"""The table in docs/reliability.md has the number of the safeguards that tests remove."""

from __future__ import annotations

import re

import tests.sim.cluster.safeguards
import tests.sim.quorum.safeguards
import tests.sim.replication.safeguards
import tests.sim.transactions.safeguards
from tests.sim.replication.test_ablation import RULES_FOUND
from tests.support.paths import ROOT

COUNTS = {
    "metadata quorum": len(tests.sim.quorum.safeguards.Safeguard),
    "replicas": len(tests.sim.replication.safeguards.Safeguard),
    "controller of the replicas": len(RULES_FOUND),
    "transaction coordinator": len(tests.sim.transactions.safeguards.Safeguard),
    "whole clusters": len(tests.sim.cluster.safeguards.Safeguard),
}


def test_the_documented_numbers_of_safeguards_are_those_of_the_simulators() -> None:
    text = (ROOT / "docs" / "reliability.md").read_text()
    _, _, section = text.partition("## Ablations")
    rows = re.findall(r"^\| ([a-z ]+) \| (\d+) \|", section.partition("\n## ")[0], re.MULTILINE)
    assert {name: int(count) for name, count in rows} == {**COUNTS, "together": sum(COUNTS.values())}
