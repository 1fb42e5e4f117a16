"""Writes the pages of the reference."""

from __future__ import annotations

from tests.harness.reference.pages import PAGES
from tests.support.paths import ROOT

FOLDER = ROOT / "docs/reference"

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page())
        print(f"docs/reference/{name}")
