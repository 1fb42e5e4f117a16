"""Fresh virtual environments and projects for tests of the wheel."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

from tests.support.paths import ROOT

_LOWER_BOUND: Final = re.compile(r"([A-Za-z0-9_.-]+)>=([0-9.]+)")
INSTALL_TIMEOUT_S: Final = 900


def create_environment(folder: Path, *requirements: str) -> Path:
    """Create a virtual environment in `folder`, install `requirements`, and return its folder of programs.

    The pip of the running Python installs them. It compiles nothing: few of the modules are imported.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    programs = folder / "bin"
    pip("--python", str(programs / "python"), "install", "--no-compile", *requirements)
    return programs


def pip(*arguments: str) -> None:
    """Run the pip of the running Python; raise AssertionError with its output if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=INSTALL_TIMEOUT_S,
        env=clean_environment(Path(sys.executable).parent),
    )
    assert done.returncode == 0, done.stderr


def lower_bounds(*extras: str) -> list[str]:
    """Return the lowest versions that pyproject.toml allows, as exact requirements."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    ranges = [
        *project["dependencies"],
        *(text for name in extras for text in project["optional-dependencies"][name]),
    ]
    return [f"{match[1]}=={match[2]}" for text in ranges if (match := _LOWER_BOUND.fullmatch(text))]


def foreign_project(folder: Path) -> Path:
    """Create a project whose own packages have the names of Tidelog's subpackages; importing one fails."""
    for name in ("broker", "clients", "cluster", "protocol", "remote", "storage"):
        package = folder / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(f"raise AssertionError('{name} of the project was imported')\n")
    return folder


def clean_environment(programs: Path) -> dict[str, str]:
    """Return the environment variables of a shell without settings for this checkout."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "TIDELOG", "PYTEST"))
    }
    return {**kept, "PATH": f"{programs}{os.pathsep}{kept.get('PATH', '')}"}
