"""Every benchmark suite named in the documents exists."""

from __future__ import annotations

import re

from benchmarks.suites import SUITES
from tests.support.paths import ROOT


def test_every_suite_named_in_documents_exists() -> None:
    text = "\n".join(path.read_text() for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))))
    commands = re.findall(r"python -m benchmarks((?: [\w-]+)+)", text)
    named = {word for command in commands for word in command.split() if word[0].isalpha()}
    assert named and named <= SUITES.keys()
