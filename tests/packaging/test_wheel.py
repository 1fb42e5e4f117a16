"""A release and its wheel as a user installs it: contents, and use with other packages."""

from __future__ import annotations

import email
import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.packaging.environments import (
    clean_environment,
    create_environment,
    foreign_project,
    lower_bounds,
)
from tests.packaging.release import build, checked_metadata
from tests.support.paths import ROOT

# Packages that a user of the wheel is likely to have in the same environment, in their newest versions.
NEIGHBOURS = ("boto3", "typer", "rich", "fastapi", "pyspark", "pytest")
FIXTURE_TEST = """
import socket
import sys


def test_the_broker_of_the_fixture_accepts_connections(tidelog_broker):
    host, _, port = tidelog_broker.bootstrap_servers.partition(":")
    socket.create_connection((host, int(port)), timeout=10).close()


def test_the_package_is_imported_without_rewritten_asserts():
    loader = sys.modules["tidelog.broker.node.node"].__loader__
    assert type(loader).__name__ == "SourceFileLoader"
"""


DOCUMENTS = "https://host/tidelog"


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Build the wheel and the source distribution as `make release` does."""
    return build(tmp_path_factory.mktemp("release"), DOCUMENTS)


@pytest.fixture(scope="module")
def wheel(release: tuple[Path, Path]) -> Path:
    return release[0]


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(archive.read(name))


def test_a_release_has_wheel_and_sources_with_valid_metadata(release: tuple[Path, Path]) -> None:
    wheel, source = release
    metadata = checked_metadata(wheel, source)
    assert (metadata.name, source.name) == ("tidelog", f"tidelog-{metadata.version}.tar.gz")
    assert f"({DOCUMENTS}/docs/security.md)" in (metadata.description or "")


def test_a_wheel_installs_exactly_two_packages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        top_level = {name.partition("/")[0] for name in archive.namelist()}
    assert {name for name in top_level if not name.endswith(".dist-info")} == {"tidelog", "pyspark_tidelog"}


def test_a_wheel_has_every_source_file_of_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("tidelog/") and name.endswith(".py")}
    assert packed == {str(path.relative_to(ROOT)) for path in (ROOT / "tidelog").rglob("*.py")}


def test_a_wheel_has_the_files_of_the_console(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if "/static/" in name}
    files = (ROOT / "tidelog/cli/console/static").iterdir()
    assert packed == {str(path.relative_to(ROOT)) for path in files}


def test_a_wheel_is_marked_as_typed(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert "tidelog/py.typed" in archive.namelist()


def test_the_metadata_is_complete_for_a_package_index(metadata: Message) -> None:
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
    assert metadata["Keywords"]


def test_the_metadata_has_urls_and_none_of_them_is_a_placeholder(metadata: Message) -> None:
    hosts = {urlsplit(text.partition(", ")[2]).hostname or "" for text in metadata.get_all("Project-URL", [])}
    assert hosts
    assert not [host for host in hosts if host.endswith(("example", "example.com", "example.org", "invalid"))]


def test_only_pyspark_has_an_upper_bound_and_no_requirement_an_exact_version(metadata: Message) -> None:
    """Python data sources of Spark change with its major versions."""
    bounded = [
        text
        for text in metadata.get_all("Requires-Dist", [])
        if "==" in text.partition(";")[0] or "<" in text.partition(";")[0]
    ]
    assert {text.partition(";")[0].strip() for text in bounded} <= {"pyspark<5,>=4.2"}


def test_the_core_requires_no_object_store_sdk_and_no_spark(metadata: Message) -> None:
    core = {
        text.partition(">")[0] for text in metadata.get_all("Requires-Dist", []) if "extra ==" not in text
    }
    assert core.isdisjoint({"boto3", "fsspec", "pyspark", "pyarrow", "confluent-kafka", "aiokafka"})


def test_the_wheel_works_with_current_dependencies_and_packages_of_the_same_names(
    wheel: Path, tmp_path: Path
) -> None:
    programs = create_environment(tmp_path / "environment", f"{wheel}[all]", *NEIGHBOURS)
    use_in_a_foreign_project(programs, foreign_project(tmp_path / "project"))


def test_the_wheel_works_with_the_lowest_allowed_versions(wheel: Path, tmp_path: Path) -> None:
    pins = lower_bounds("s3", "fsspec")
    assert len(pins) > 8
    programs = create_environment(tmp_path / "environment", str(wheel), *pins, "pytest==8.0.0")
    use_in_a_foreign_project(programs, foreign_project(tmp_path / "project"))


def use_in_a_foreign_project(programs: Path, project: Path) -> None:
    """Run the pytest fixture, `tidelog dev`, produce and consume in `project`."""
    environment = clean_environment(programs)
    (project / "test_fixture.py").write_text(FIXTURE_TEST)
    run(programs / "pytest", "-q", "-p", "no:cacheprovider", cwd=project, env=environment)
    with development_broker(programs, project, environment) as bootstrap:
        run(
            programs / "tidelog",
            "produce",
            "tides",
            "-b",
            bootstrap,
            stdin="high water\n",
            cwd=project,
            env=environment,
        )
        read = run(
            programs / "tidelog",
            "consume",
            "tides",
            "-b",
            bootstrap,
            "-o",
            "beginning",
            "-e",
            cwd=project,
            env=environment,
        )
    assert read == "high water\n"


def run(*command: Path | str, cwd: Path, env: dict[str, str], stdin: str = "") -> str:
    """Run a command to its end and return its standard output; raise AssertionError if it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=env,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextmanager
def development_broker(programs: Path, project: Path, environment: dict[str, str]) -> Iterator[str]:
    """Run `tidelog dev` on a free port in `project`; yield its address."""
    with subprocess.Popen(
        [str(programs / "tidelog"), "dev", "--port", "0"],
        cwd=project,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as broker:
        assert broker.stdout is not None
        try:
            yield first_address(broker.stdout.readline())
        finally:
            broker.terminate()
            broker.wait(timeout=30)


def first_address(line: str) -> str:
    """Return the address in the line that `tidelog dev` prints when it is ready."""
    (address,) = [
        word for word in line.replace(",", " ").split() if word.rpartition(":")[2].rstrip(".").isdigit()
    ]
    return address.rstrip(".")
