"""Rules for every tracked source file: size of files and functions, docstrings, names of modules, links."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "tidelog"
SOURCES = sorted(PACKAGE.rglob("*.py"))
LINKS = ("broker", "cluster", "protocol", "remote", "spark_connector", "storage")
PROGRAM_FOLDERS = ("tidelog", "pyspark_tidelog", "tests", "benchmarks")
MODULE_LINES_MAX = 800
FUNCTION_LINES_MAX = 60
BANNED_MODULE_NAMES = {"utils", "util", "helpers", "common", "misc"}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    return {name_of(path): ast.parse(path.read_text()) for path in SOURCES}


def definitions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [node for node in ast.walk(tree) if isinstance(node, kinds)]


def public_definitions(
    tree: ast.Module,
) -> list[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Public functions and classes of a module, and public methods of its public classes."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    top = [node for node in tree.body if isinstance(node, kinds) and not node.name.startswith("_")]
    methods = [
        node
        for owner in top
        if isinstance(owner, ast.ClassDef) and not is_protocol_or_override(owner)
        for node in owner.body
        if isinstance(node, kinds) and not node.name.startswith("_")
    ]
    return [*top, *methods]


def is_protocol_or_override(owner: ast.ClassDef) -> bool:
    """Return whether the methods implement an interface that is documented elsewhere."""
    return bool(owner.bases)


def test_there_are_sources_to_check() -> None:
    assert len(SOURCES) > 100


def test_modules_have_at_most_800_lines() -> None:
    long = {
        name_of(path): lines
        for path in SOURCES
        if (lines := len(path.read_text().splitlines())) > MODULE_LINES_MAX
    }
    assert not long


def test_functions_have_a_bounded_length(trees: dict[str, ast.Module]) -> None:
    long = {
        f"{name}:{node.name}": lines
        for name, tree in trees.items()
        for node in definitions(tree)
        if not isinstance(node, ast.ClassDef)
        and (lines := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES_MAX
    }
    assert not long


def test_no_star_imports(trees: dict[str, ast.Module]) -> None:
    imports = [
        f"{name}:{node.lineno}"
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)
    ]
    assert not imports


def test_every_module_has_a_docstring(trees: dict[str, ast.Module]) -> None:
    silent = [name for name, tree in trees.items() if tree.body and not ast.get_docstring(tree)]
    assert not silent


def test_every_public_name_has_a_docstring(trees: dict[str, ast.Module]) -> None:
    silent = [
        f"{name}:{node.lineno} {node.name}"
        for name, tree in trees.items()
        for node in public_definitions(tree)
        if not ast.get_docstring(node)
    ]
    assert not silent


def test_no_module_is_named_utils() -> None:
    drawers = [name_of(path) for path in SOURCES if path.stem in BANNED_MODULE_NAMES]
    assert not drawers


def test_sources_have_no_todo(trees: dict[str, ast.Module]) -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
    lines = [
        f"{name_of(path)}:{number}"
        for path in SOURCES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if marks.search(line)
    ]
    assert not lines


def test_the_container_image_has_the_whole_package() -> None:
    copied = set(re.findall(r"^COPY (\w+) \1$", (ROOT / "docker/Dockerfile").read_text(), re.MULTILINE))
    sent_to_the_engine = set(re.findall(r"^!(\w+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
    assert PACKAGE.name in copied
    assert PACKAGE.name in sent_to_the_engine


def test_top_level_names_are_links_into_the_package() -> None:
    targets = {name: (ROOT / name).readlink() for name in LINKS}
    assert targets == {name: Path(PACKAGE.name, name) for name in LINKS}


def test_no_import_uses_the_links() -> None:
    names = {*LINKS, "clients"}
    # Only files with such a line can import through a link (ruff allows one module per import). Parsing all
    # files takes seconds.
    import_line = re.compile(rf"^\s*(?:import|from)\s+(?:{'|'.join(names)})\b", re.MULTILINE)
    sources = [
        (path, text)
        for folder in PROGRAM_FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if import_line.search(text := path.read_text())
    ]
    imports = [
        f"{name_of(path)}:{node.lineno} {name}"
        for path, text in sources
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in imported_modules(node)
        if name.partition(".")[0] in names
    ]
    assert not imports


def test_no_program_is_started_through_the_links() -> None:
    command = re.compile(r"-m[\s\"',]+(?:" + "|".join(LINKS) + r")(?![\w.])")
    folders = (*PROGRAM_FOLDERS, "docker", "docs", "examples", ".ci")
    files = [
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".sh", ".yaml", ".yml", ".md", ".ipynb"}
    ]
    commands = [
        f"{name_of(path)}:{number}"
        for path in (*files, ROOT / "Makefile", ROOT / "README.md", ROOT / "CONTRIBUTING.md")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if command.search(line)
    ]
    assert not commands


def imported_modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Return the absolute names that an import statement names."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if node.level == 0 and node.module else []


SHORT_DEADLINES = re.compile(
    r"asyncio\.timeout\([1-9]\d?(\.0)?\)"
    r"|wait_for\(.*, [1-9]\d?(\.0)?\)"
    r"|(monotonic|perf_counter)\(\) - \w+ <"
)
"""Waiting for less than 100 s, and a maximum for an elapsed time. A timeout below 1 s is meant to expire."""


def test_no_test_of_make_test_fails_because_the_machine_is_busy() -> None:
    folders = ("unit", "integration", "interop", "model", "packaging", "scenarios", "spark", "support")
    short = [
        f"{name_of(path)}:{number}: {line.strip()}"
        for folder in folders
        for path in sorted((ROOT / "tests" / folder).rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if SHORT_DEADLINES.search(line)
    ]
    assert not short, "use TIMEOUT_S of tests.support.waiting:\n" + "\n".join(short)
