"""What a new user does first: install, and follow README and tutorial, with the outputs that they show.

`docker/new_user.sh` runs `python -m tests.harness.new_user` in a checkout, in a container that has only
Python. The commands use the installed package: only the standard library is used here.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.error import URLError
from urllib.request import urlopen

from tests.support.document_commands import Step, code_blocks, console_steps

CHECKOUT: Final = Path.cwd()
README: Final = CHECKOUT / "README.md"
TUTORIAL: Final = CHECKOUT / "docs/tutorial.md"
WORK: Final = Path.home() / "work"
PROGRAMS: Final = WORK / ".venv/bin"
TIMEOUT_S: Final = 600
CONSOLE: Final = "http://127.0.0.1:8091"
METRICS_PORT: Final = 9404


class UnexpectedResultError(Exception):
    """A command failed, or printed something else than its document shows."""


def run(*command: str) -> str:
    """Return the output of a command that must succeed."""
    environment = {**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}"}
    done = subprocess.run(
        command, cwd=WORK, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise UnexpectedResultError(f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def shell(commands: str) -> str:
    """Return the output of commands for a shell, all of which must succeed."""
    return run("bash", "-e", "-o", "pipefail", "-c", commands)


def require(condition: bool, text: str) -> None:
    """Raise UnexpectedResultError if the condition is false."""
    if not condition:
        raise UnexpectedResultError(text)


def install() -> None:
    """Install the checkout as README describes, with the packages of its examples."""
    venv.create(PROGRAMS.parent, with_pip=True)
    run("pip", "install", "--quiet", f"{CHECKOUT}[console]", "pytest", "confluent-kafka")
    print(f"  {run('tidelog', '--version').strip()}")


@contextmanager
def development_broker(*options: str) -> Iterator[None]:
    """Run `tidelog dev` until the end of the block; the second ctrl-C of a user is not needed."""
    with subprocess.Popen(
        [str(PROGRAMS / "tidelog"), "dev", *options], cwd=WORK, stdout=subprocess.PIPE, text=True
    ) as broker:
        try:
            assert broker.stdout is not None
            first = broker.stdout.readline()
            require("ready at 127.0.0.1:9092" in first, f"tidelog dev printed {first!r}")
            yield
        finally:
            broker.send_signal(signal.SIGINT)
        require(broker.wait(TIMEOUT_S) == 0, "tidelog dev did not end with 0 after ctrl-C")


def five_minutes() -> None:
    """Run the commands and the program of README, and read what console and dashboard show."""
    (program,) = [text for text in code_blocks(README, "python") if text.startswith("import")]
    with development_broker("-o", f"metrics.port={METRICS_PORT}"):
        for step in readme_steps()[0]:
            check(step)
        overview, topics = json.loads(page(f"{CONSOLE}/api/overview")), page(f"{CONSOLE}/api/topics")
        require(overview["healthy"] and "greetings" in topics, f"the console has {overview} and {topics}")
        metrics = page(f"http://127.0.0.1:{METRICS_PORT}/metrics")
        for sample in ("tidelog_build_info{", 'tidelog_topic_messages_in_total{topic="greetings"} 1.0'):
            require(sample in metrics, f"the metrics have no {sample}")
    run("python", "-c", program)


def readme_steps() -> tuple[list[Step], list[Step]]:
    """Return the commands of README after `tidelog dev`, and those for three nodes."""
    steps = list(console_steps(README))[1:]
    three_nodes = [step.command.startswith("tidelog cluster start") for step in steps].index(True)
    return steps[:three_nodes], steps[three_nodes:]


def check(step: Step) -> None:
    """Run a command, and compare what it prints with what its document shows."""
    printed = shell(step.command)
    require(step.is_shown(printed), f"{step.command} printed:\n{printed}\nexpected:\n{step.output}")


def page(url: str) -> str:
    """Return the text at `url`; wait until it is served, because the console starts after the broker."""
    deadline = time.monotonic() + 60
    while True:
        try:
            with urlopen(url, timeout=60) as response:
                return bytes(response.read()).decode()
        except URLError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def three_nodes() -> None:
    """Run the commands of README for three nodes with tiered storage, in one shell: it keeps a variable."""
    printed = shell("\n".join(step.command for step in readme_steps()[1]))
    require("created tides: 6 partitions" in printed, f"the commands printed {printed}")


def tutorial() -> None:
    """Run each command of the tutorial, and compare its output."""
    with development_broker("--tiered", "-d", "tutorial"):
        for step in console_steps(TUTORIAL):
            check(step)
        (program,) = code_blocks(TUTORIAL, "python")
        require(run("python", "-c", program).endswith("3 falling\n"), "the program of the tutorial")


def fixture() -> None:
    """Run the test of README and that of the examples, and print how long the first use takes."""
    (test,) = [text for text in code_blocks(README, "python") if text.startswith("def test_")]
    (WORK / "test_readme.py").write_text(f"import confluent_kafka\n\n\n{test}")
    (WORK / "test_orders.py").write_bytes((CHECKOUT / "examples/test_orders.py").read_bytes())
    for _ in range(2):
        printed = run("pytest", "-q", "--durations=0", ".")
        require("2 passed" in printed, printed)
    setups_s = [float(text) for text in re.findall(r"([0-9.]+)s setup", printed)]
    print(f"  first use of the fixture: {max(setups_s, default=0.0)} s")


def main() -> int:
    """Run all steps; return 1 if one fails."""
    WORK.mkdir()
    for step in (install, five_minutes, three_nodes, tutorial, fixture):
        print(f"== {step.__name__.replace('_', ' ')}", flush=True)
        began = time.monotonic()
        try:
            step()
        except (UnexpectedResultError, OSError, subprocess.SubprocessError) as error:
            print(f"FAILED: {error}")
            return 1
        print(f"  passed in {time.monotonic() - began:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
