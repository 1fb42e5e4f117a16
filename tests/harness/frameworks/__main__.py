"""`make test-frameworks`: runs each example in an environment of its own, and compares its last line.

`python -m tests.harness.frameworks kombu_queue` runs those whose names contain the text. Environments are
kept in .cache/frameworks.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

from tests.harness.frameworks.examples import EXAMPLES, FrameworkExample
from tests.support.paths import ROOT
from tidelog.testing.embedded import EmbeddedCluster

ENVIRONMENTS = ROOT / ".cache" / "frameworks"
FOLDER = ROOT / "examples" / "frameworks"
TIMEOUT_S = 180


def command_of(example: FrameworkExample) -> list[str]:
    """Return the command of an example without its argument; install its packages."""
    program = FOLDER / example.file
    if program.suffix != ".java":
        return [str(environment(example)), str(program)]
    return ["java", "-Xmx512m", str(program)]


def jars(example: FrameworkExample) -> dict[str, str]:
    """Return the variable with the jars of the pom.xml next to an example; download them."""
    program = FOLDER / example.file
    if not (pom := program.parent / "pom.xml").exists():
        return {}
    folder = ENVIRONMENTS / f"{program.stem}-jars"
    copy = ["mvn", "-q", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    subprocess.run(copy, check=True)
    return {"CLASSPATH": f"{folder}/*"}


def environment(example: FrameworkExample) -> Path:
    """Return the Python of the example's environment; create it if it has other packages."""
    folder = ENVIRONMENTS / Path(example.file).stem
    python, stamp = folder / "bin" / "python", folder / "packages"
    text = "\n".join(example.packages)
    if not stamp.exists() or stamp.read_text() != text:
        venv.create(folder, clear=True, with_pip=True)
        if example.packages:
            subprocess.run([python, "-m", "pip", "install", "--quiet", *example.packages], check=True)
        stamp.write_text(text)
    return python


def run(example: FrameworkExample, servers: str) -> str | None:
    """Run an example; return what is wrong, or None."""
    try:
        command, variables = [*command_of(example), servers], {**os.environ, **jars(example)}
        done = subprocess.run(
            command,
            env=variables,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            cwd=ENVIRONMENTS,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    lines = done.stdout.splitlines()
    if done.returncode == 0 and lines and lines[-1] == example.last_line:
        return None
    return f"ended with {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"


def main() -> int:
    """Run the selected examples; return 1 if one fails."""
    selected = [
        example for example in EXAMPLES if not sys.argv[1:] or any(t in example.file for t in sys.argv[1:])
    ]
    failed = 0
    with EmbeddedCluster() as cluster:
        for example in selected:
            problem = run(example, cluster.bootstrap_servers)
            failed += problem is not None
            print(f"{example.file}: {problem or 'passed'} ({', '.join(example.packages)})", flush=True)
    print(f"{len(selected) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
