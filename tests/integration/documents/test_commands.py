"""Every `tidelog` command in a document exists, and has the options and arguments that it is shown with."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.exceptions import TyperException
from typer.main import get_command

from tests.support.document_commands import command_lines
from tests.support.paths import ROOT
from tidelog.cli.app import COMMANDS

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "examples/README.md"]
VALUE = re.compile(r"<[\w -]+>|\$\([^)]*\)")
"""What a user replaces, and the output of another command."""
OMITTED = re.compile(r"\[[^]]*\]|\.\.\.|[<>)].*")
"""Optional parts of a synopsis, further arguments, and redirections."""


def commands(document: Path) -> Iterator[list[str]]:
    """Yield the arguments of each command of the document."""
    for line in command_lines(document):
        inner = re.findall(r"\$\(([^)]*)\)", line)
        for part in (*inner, *re.split(r"[|;&]|\bdo\b|\buntil\b", VALUE.sub("VALUE", line))):
            text = part.strip().removeprefix("$ ")
            if text.startswith("tidelog "):
                yield shlex.split(OMITTED.sub("", text), comments=True)[1:]


def quoted_commands(document: Path) -> Iterator[list[str]]:
    """Yield the arguments of the commands that are quoted in sentences; they may be incomplete."""
    for text in re.findall(r"`tidelog ([a-z][^`]*)`", document.read_text().replace("\n", " ")):
        yield shlex.split(OMITTED.sub("", VALUE.sub("VALUE", text)))


def problem(arguments: list[str], *, is_complete: bool = True) -> str | None:
    """Return why the command line does not accept the arguments; None if it does."""
    name, *rest = arguments
    if name not in COMMANDS:
        return f"no command {name}"
    command: Any = get_command(import_module(f"tidelog.cli.{COMMANDS[name].module}").app)
    while getattr(command, "commands", None):
        if not is_complete and (not rest or not rest[0].islower() or rest[0].startswith("-")):
            return None
        if not rest or rest[0] not in command.commands:
            return f"{command.name} has no command {rest[:1]}"
        command, rest = command.commands[rest[0]], rest[1:]
    context = command.context_class(command, info_name=name, **command.context_settings)
    try:
        _, further, _ = command.make_parser(context).parse_args(rest)
    except TyperException as error:
        return None if not is_complete and "requires an argument" in str(error) else str(error)
    return f"too many arguments: {further}" if further and not context.allow_extra_args else None


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_exists_with_its_options(document: Path) -> None:
    problems = [problem(arguments) for arguments in commands(document)]
    problems += [problem(arguments, is_complete=False) for arguments in quoted_commands(document)]
    assert [each for each in problems if each] == []


def test_wrong_commands_are_found() -> None:
    assert problem(["tpoic", "list"]) == "no command tpoic"
    assert "no command" in str(problem(["topic", "lst"]))
    assert "no command" in str(problem(["topic"]))
    assert problem(["topic"], is_complete=False) is None
    assert "--nothing" in str(problem(["topic", "list", "--nothing"]))
    assert "too many arguments" in str(problem(["topic", "list", "tides", "moons"]))
    assert sum(len(list(commands(document))) for document in DOCUMENTS) > 70
