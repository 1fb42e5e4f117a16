"""docs/memory.md states the bounds of the code: its defaults and constants are right, and none is missing."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import ROOT
from tidelog.broker.config.settings import BROKER_CONFIGS
from tidelog.remote.objects.config import CONFIGS
from tidelog.remote.objects.stores.s3_settings import CONFIGS as S3_CONFIGS

TEXT = (ROOT / "docs" / "memory.md").read_text()
UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20}
BUDGET = re.compile(r"\| `([a-z.]+)` \| (\d+) \|")
KEY = re.compile(r"`([a-z0-9]+(?:\.[a-z0-9]+)+)` \((\d[\d,]*)(?: ([KM]iB))?\)")
CONSTANT = re.compile(r"(\d[\d,]*)(?: ([KM]iB))?[^|`;.(\d]*? \(`([A-Z_]+)`")
BOUNDS = re.compile(r"Bounds: (.*?)(?=\n\n|\n[A-Z][a-z/O]+: |\Z)", re.DOTALL)
PACKAGES = ("base", "broker", "cluster", "remote")
OF_TIME_OR_DISK = {
    "CALLBACKS_MAX": "callbacks in one turn of the event loop",
    "CHARACTERS_MAX": "the length of a pattern",
    "EMPTY_RECORDS_MAX": "records without data that a client may send",
    "ENTRY_BYTES_MAX": "a file of a backup, which the command line writes",
    "RECORDS_MAX": "records that are decrypted in one call",
}
"""Constants of bounds that are not bounds of a broker's memory."""


def number(digits: str, unit: str) -> int:
    return int(digits.replace(",", "")) * UNITS[unit]


def sources() -> Iterator[ast.Module]:
    for package in PACKAGES:
        for path in (ROOT / "tidelog" / package).rglob("*.py"):
            yield ast.parse(path.read_text())


def constants() -> dict[str, set[int]]:
    """Return the integers that are assigned to a name in upper case, of all modules."""
    values = defaultdict(set)
    for path in Path(ROOT / "tidelog").rglob("*.py"):
        for name, value in re.findall(r"^([A-Z_]+): Final = ([\d_ *<]+)$", path.read_text(), re.MULTILINE):
            values[name].add(eval(value))
    return values


def test_the_budgets_and_their_sum_are_the_defaults() -> None:
    budgets = {key: int(default) for key, default in BUDGET.findall(TEXT)}
    assert len(budgets) == 5
    assert budgets == {key: BROKER_CONFIGS[key].default for key in budgets}
    without_tier = sum(size for key, size in budgets.items() if not key.startswith("remote."))
    assert f"- {without_tier >> 20:,} MiB for the budgets together" in TEXT


def test_the_defaults_of_keys_are_those_of_the_code() -> None:
    stated = {key: number(digits, unit) for key, digits, unit in KEY.findall(TEXT)}
    assert len(stated) > 10
    plugin = {f"rsm.config.{key}": definition for key, definition in {**CONFIGS, **S3_CONFIGS}.items()}
    definitions = {**BROKER_CONFIGS, **plugin}
    assert stated == {key: definitions[key].default for key in stated}


def test_the_values_of_constants_are_those_of_the_code() -> None:
    values, stated = constants(), CONSTANT.findall(TEXT)
    assert len(stated) > 20
    wrong = [(name, value) for value, unit, name in stated if number(value, unit) not in values[name]]
    assert wrong == []


def test_every_bound_that_the_code_states_by_a_constant_is_listed() -> None:
    named = {
        constant
        for tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef)
        for bounds in BOUNDS.findall(ast.get_docstring(node) or "")
        for constant in re.findall(r"\b(?:[A-Z_]+_MAX|MAX_[A-Z_]+)\b", bounds)
    }
    assert "PENDING_MAX" in named
    assert {constant for constant in named if f"(`{constant}`" not in TEXT} - set(OF_TIME_OR_DISK) == set()
