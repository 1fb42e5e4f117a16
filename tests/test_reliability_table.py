"""docs/reliability.md names tests; all of them exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_every_test_that_the_reliability_table_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs/reliability.md").read_text()))
    defined = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^ *(?:async )?def (test_\w+)\(", path.read_text(), re.MULTILINE)
    }
    assert len(named) > 60
    assert named - defined == set()
