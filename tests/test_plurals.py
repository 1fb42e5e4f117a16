"""Counts in texts for users have the right form of their noun: `1 record`, `2 records`."""

from __future__ import annotations

import re

import pytest

from tests.support.paths import ROOT

FOLDERS = ("tidelog/cli", "tidelog/demo", "tidelog/spark_connector/jobs")
NOUNS = (
    "batches|bindings|brokers|bytes|commits|copies|directories|entries|errors|files|findings|groups|keys|members"
    "|nodes|objects|offsets|partitions|problems|records|replicas|rows|segments|topics|users"
)
COUNTED = re.compile(r"\{([^{}]*)\} (?:" + NOUNS + r")\b(?!/)")
"""A value in a text, followed by a noun in the plural."""
LARGE = re.compile(r"([A-Z_]+|\w+_max|completed)(:,)?$")
"""Constants, limits, and the count of a progress bar, which is updated at each refresh."""


@pytest.mark.parametrize("folder", FOLDERS)
def test_texts_with_a_count_use_count_text(folder: str) -> None:
    wrong = [
        (str(path.relative_to(ROOT)), match[0])
        for suffix in ("*.py", "*.js")
        for path in sorted((ROOT / folder).rglob(suffix))
        for match in COUNTED.finditer(path.read_text())
        if not LARGE.match(match[1].split(".")[-1])
    ]
    assert wrong == []
