"""Modules that the start of a process does not import."""

from __future__ import annotations

import subprocess
import sys

import pytest

COMPILED_MAX = 60
"""Constructors of dataclasses whose first instance is created by an import; the rest costs no time."""

COMPILED = """
import sys
from collections import Counter

def count(event, arguments):
    if event == "compile":
        callers[sys._getframe(1).f_code.co_filename.rpartition("/")[2]] += 1

callers = Counter()
sys.addaudithook(count)
import tidelog.broker.node.process
print(callers["dataclasses.py"] + callers["dataclass.py"])
"""

LOADED = "import sys, tidelog.broker.node.process; print(*sys.modules, sep='\\n')"


@pytest.fixture(scope="module")
def loaded_modules() -> set[str]:
    """Return the modules that a process has imported before it starts a broker."""
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "library",
    [
        "prometheus_client",
        "http.server",
        "wsgiref",
        "typer",
        "rich",
        "tidelog.cli",
        "tidelog.testing",
        # Only a node with remote storage needs these.
        "tidelog.broker.tier",
        "tidelog.remote.log_manager",
        "tidelog.remote.index_cache",
        "tidelog.remote.objects.config",
        "boto3",
        "botocore",
        "fsspec",
        "cryptography",
    ],
)
def test_the_start_does_not_import(library: str, loaded_modules: set[str]) -> None:
    assert not {name for name in loaded_modules if name == library or name.startswith(library + ".")}


def test_the_start_imports_what_it_needs(loaded_modules: set[str]) -> None:
    assert {"tidelog.broker.node.node", "uvloop", "tidelog.protocol.codec"} <= loaded_modules


def test_the_import_of_a_broker_compiles_few_methods_of_dataclasses() -> None:
    done = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True, check=True)
    assert 0 < int(done.stdout) <= COMPILED_MAX
