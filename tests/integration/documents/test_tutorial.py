"""The tutorial as a new user follows it: a development broker, and each command with its output."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.document_commands import code_blocks, console_steps
from tests.support.paths import ROOT

TUTORIAL = ROOT / "docs/tutorial.md"
TIMEOUT_S = 120
PROGRAM = f"{sys.executable} -m tidelog.cli.main"


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
    programs = [block for block in code_blocks(ROOT / "README.md", "python") if block.startswith("import")]
    assert programs
    for program in programs:
        run([sys.executable, "-c", program], environment)


def test_every_command_of_the_tutorial_prints_what_it_shows(environment: dict[str, str]) -> None:
    commands = list(console_steps(TUTORIAL))
    assert len(commands) > 10
    for step in commands:
        output = run(["bash", "-c", step.command], environment)
        assert step.is_shown(output), f"{step.command} printed:\n{output}\nexpected:\n{step.output}"
    (program,) = code_blocks(TUTORIAL, "python")
    program = program.replace("localhost:9092", environment["TIDELOG_BOOTSTRAP"])
    assert run([sys.executable, "-c", program], environment).splitlines()[-1] == "3 falling"
