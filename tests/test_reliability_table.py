"""docs/reliability.md and docs/security.md name tests; all of them exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("document", ["reliability", "security"])
def test_every_test_that_a_document_names_exists(document: str) -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / f"docs/{document}.md").read_text()))
    defined = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^ *(?:async )?def (test_\w+)\(", path.read_text(), re.MULTILINE)
    }
    assert len(named) > 40
    assert named - defined == set()
