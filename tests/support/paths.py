"""Paths of the checkout and of files that tests read."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
GOLDEN_FILES: Final = ROOT / "tests" / "golden"
SCENARIOS: Final = ROOT / "tests" / "scenarios"
