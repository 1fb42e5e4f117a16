"""The documents: links lead to files and headings that exist, and so do quoted files and functions."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
NOT_FILES = {"docs/gaps.md", "tidelog/a/b.py", "tests/unit/a/test_b.py", "benchmarks/results/bench.json"}
"""Examples, former files and files that a program writes."""
QUOTED_FILE = re.compile(r"`((?:tidelog|tests|docs|benchmarks|docker|examples)/[\w./-]+)`")
QUOTED_FUNCTION = re.compile(r"`(tidelog/[\w/]+\.py)`[:,]?\s+`([\w.]+)(?:\(\))?`")
QUOTED_METHOD = re.compile(r"`([A-Z]\w*[a-z]\w*)\.([a-z_]\w*)`")
QUOTED_TEST = re.compile(r"`(test_\w+)`")


@pytest.fixture(scope="module")
def names_of_tests() -> set[str]:
    """Return the names of all test functions and of all modules of tests."""
    modules = list((ROOT / "tests").rglob("*.py"))
    functions = (re.findall(r"def (test_\w+)", module.read_text()) for module in modules)
    return {module.stem for module in modules}.union(*functions)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_quoted_tests_exist(document: Path, names_of_tests: set[str]) -> None:
    assert set(QUOTED_TEST.findall(document.read_text())) <= names_of_tests


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(document: Path) -> None:
    missing = []
    for link in LINK.findall(document.read_text()):
        if "://" in link or link.startswith("mailto:"):
            continue
        name, _, anchor = link.partition("#")
        target = (document.parent / name).resolve() if name else document
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            missing.append(link)
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_quoted_files_exist(document: Path) -> None:
    quoted = QUOTED_FILE.findall(document.read_text())
    missing = [name for name in quoted if not any((ROOT / f"{name}{end}").exists() for end in ("", ".py"))]
    assert [name for name in missing if name not in NOT_FILES] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_quoted_functions_and_classes_exist(document: Path) -> None:
    """A file and a name directly after it, as in `tidelog/x.py` `Class.method`."""
    missing = [
        (name, qualified)
        for name, qualified in QUOTED_FUNCTION.findall(document.read_text())
        if not all(re.search(rf"\b{part}\b", (ROOT / name).read_text()) for part in qualified.split("."))
    ]
    assert missing == []


def test_methods_in_the_walk_throughs_exist() -> None:
    """A class and a method or attribute without a file, as in `Class.method`."""
    document = (ROOT / "docs" / "architecture.md").read_text()
    quoted = set(QUOTED_METHOD.findall(document))
    classes = {name for name, _ in quoted}
    assert len(classes) > 20
    missing = {name: {member for owner, member in quoted if owner == name} for name in classes}
    for module in (ROOT / "tidelog").rglob("*.py"):
        text = module.read_text()
        for name in classes:
            if f"class {name}" in text:
                missing[name] -= members_of(ast.parse(text), name)
    assert {name: members for name, members in missing.items() if members} == {}


def members_of(module: ast.Module, name: str) -> set[str]:
    """Return the names of the methods and fields of a class."""
    nodes = [node for node in module.body if isinstance(node, ast.ClassDef) and node.name == name]
    inner = [node for owner in nodes for node in ast.walk(owner)]
    methods = {node.name for node in inner if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    return methods | {
        node.id for node in inner if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def anchors_of(document: Path) -> set[str]:
    """Return the anchors that a renderer makes of a document's headings."""
    headings = HEADING.findall(document.read_text())
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}
