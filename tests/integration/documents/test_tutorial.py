"""The tutorial as a new user follows it: a development broker, and each command with its output."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.support.paths import ROOT

TUTORIAL = ROOT / "docs/tutorial.md"
TIMEOUT_S = 120
PROGRAM = f"{sys.executable} -m tidelog.cli.main"


class Step(NamedTuple):
    """One command of the tutorial, and the output that it shows; "..." stands for any text."""

    command: str
    output: str


def steps() -> Iterator[Step]:
    """Yield the commands of the console blocks in their order."""
    for block in re.findall(r"```console\n(.*?)```", TUTORIAL.read_text(), re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield Step(command, output)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Run `tidelog dev --tiered`, and return the environment of further commands."""
    folder = tmp_path_factory.mktemp("tutorial")
    (folder / "bin").mkdir()
    script = folder / "bin/tidelog"
    script.write_text(f'#!/bin/sh\nexec {PROGRAM} "$@"\n')
    script.chmod(0o755)
    variables = {
        **os.environ,
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PWD": str(folder),
    }
    command = [str(script), "dev", "--tiered", "-p", "0"]
    with subprocess.Popen(command, cwd=folder, env=variables, stdout=subprocess.PIPE, text=True) as broker:
        try:
            assert broker.stdout is not None
            address = re.findall(r"ready at (\S+),", broker.stdout.readline())[0]
            yield {**variables, "TIDELOG_BOOTSTRAP": address}
        finally:
            broker.send_signal(signal.SIGINT)


def run(command: list[str], environment: dict[str, str]) -> str:
    """Return the output of a successful command."""
    ended = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert ended.returncode == 0, f"{command}: {ended.stdout}{ended.stderr}"
    return ended.stdout


def test_the_program_of_the_readme_runs(environment: dict[str, str]) -> None:
    programs = re.findall(r"```python\n(import .*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert programs
    for program in programs:
        run([sys.executable, "-c", program], environment)


def test_every_command_of_the_tutorial_prints_what_it_shows(environment: dict[str, str]) -> None:
    commands = list(steps())
    assert len(commands) > 10
    for step in commands:
        output = run(["bash", "-c", step.command], environment)
        pattern = ".*".join(map(re.escape, step.output.split("...")))
        assert re.fullmatch(pattern, output, re.DOTALL), (
            f"{step.command} printed:\n{output}\nexpected:\n{step.output}"
        )
    (program,) = re.findall(r"```python\n(.*?)```", TUTORIAL.read_text(), re.DOTALL)
    program = program.replace("localhost:9092", environment["TIDELOG_BOOTSTRAP"])
    assert run([sys.executable, "-c", program], environment).splitlines()[-1] == "3 falling"
