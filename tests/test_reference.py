"""The reference in docs/reference, which `python -m tests.harness.reference` writes from the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.reference.pages import PAGES

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("name", PAGES)
def test_the_reference_agrees_with_the_code(name: str) -> None:
    stored = (ROOT / "docs/reference" / name).read_text()
    assert stored == PAGES[name](), "run `python -m tests.harness.reference` (or `make docs`)"
