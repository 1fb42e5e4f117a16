"""The broker inside a test: remains after its end or a failed start, and imports."""

from __future__ import annotations

import subprocess
import sys
import threading
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import pytest

import tidelog
from tidelog.base.config_definition import ConfigError
from tidelog.testing.embedded import EmbeddedCluster


@pytest.mark.parametrize(
    ("config", "expected_text"),
    [
        ({"log.retention.ms": "soon"}, "log.retention.ms=soon"),
        ({"process.roles": "broker"}, "process.roles"),
        ({"log.retention.hour": "3"}, "the key is unknown; did you mean log.retention.hours"),
    ],
)
def test_a_cluster_that_cannot_start_reports_the_reason_and_is_removed(
    config: dict[str, str], expected_text: str
) -> None:
    cluster = EmbeddedCluster(config=config)
    with pytest.raises(ConfigError, match=expected_text):
        cluster.start()
    assert not cluster.data_dir.exists()
    assert not [thread for thread in threading.enumerate() if thread.name == "tidelog-embedded"]


def test_a_given_data_directory_is_kept_when_a_cluster_cannot_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        EmbeddedCluster(config={"log.retention.ms": "soon"}, data_dir=tmp_path).start()
    assert tmp_path.exists()


def test_the_package_has_its_version() -> None:
    assert tidelog.__version__ == version("tidelog")
    with pytest.raises(AttributeError):
        tidelog.__versions__  # noqa: B018


def test_importing_the_package_imports_neither_clients_nor_broker() -> None:
    names = ("asyncio", "uvloop", "tidelog.broker", "tidelog.clients")
    code = f"import sys, tidelog; print([name for name in {names} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("package", ["tidelog", "pyspark_tidelog"])
def test_every_package_is_marked_as_typed(package: str) -> None:
    assert files(package).joinpath("py.typed").is_file()
