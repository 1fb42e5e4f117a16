"""The download of Apache Kafka gives one line with the reason where it is impossible."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference_software import kafka_jars

JDK = "echo java.base@17.0.15; echo jdk.compiler@17.0.15"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that has the only programs that can be found."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def add(programs: Path, name: str, script: str) -> None:
    """Add a program."""
    path = programs / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_without_java_or_maven_the_reason_names_the_missing_program(programs: Path, tmp_path: Path) -> None:
    assert kafka_jars.download(tmp_path) == "java is not installed"
    add(programs, "java", JDK)
    assert kafka_jars.download(tmp_path) == "mvn is not installed"


@pytest.mark.parametrize(
    ("script", "present"),
    [
        ("echo java.base@17.0.15", "one without a compiler"),
        ("echo java.base@11.0.2; echo jdk.compiler@11.0.2", "11"),
        ("echo Unrecognized option: --list-modules >&2; exit 1", "one without a compiler"),
    ],
)
def test_a_java_that_cannot_run_the_tests_is_the_reason(
    programs: Path, tmp_path: Path, script: str, present: str
) -> None:
    add(programs, "java", script)
    add(programs, "mvn", "exit 0")
    expected = f"a JDK 17 or newer is needed, installed is {present}"
    assert kafka_jars.download(tmp_path) == expected


def test_the_first_error_of_maven_is_the_reason(programs: Path, tmp_path: Path) -> None:
    add(programs, "java", JDK)
    add(programs, "mvn", "echo '[ERROR] no route'; echo '[ERROR]'; echo '[ERROR] more'; exit 1")
    assert kafka_jars.download(tmp_path) == "Maven cannot download Apache Kafka: no route"
    add(programs, "mvn", "exit 3")
    assert kafka_jars.download(tmp_path) == "Maven cannot download Apache Kafka: exit code 3"


def test_a_download_without_progress_ends(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_jars, "DOWNLOAD_S_MAX", 0.1)
    add(programs, "java", JDK)
    add(programs, "mvn", "while :; do :; done")
    assert kafka_jars.download(tmp_path) == "Maven has not downloaded Apache Kafka within 0.1 s"


def test_maven_copies_the_jars_into_the_directory(programs: Path, tmp_path: Path) -> None:
    add(programs, "java", JDK)
    add(programs, "mvn", f'echo "$@" > "{tmp_path}/arguments"')
    assert kafka_jars.download(tmp_path) is None
    arguments = (tmp_path / "arguments").read_text().split()
    assert arguments[-2:] == ["dependency:copy-dependencies", f"-DoutputDirectory={tmp_path}"]
    assert Path(arguments[arguments.index("--file") + 1]).is_file()


def test_an_archive_of_classes_is_written_once_and_tools_use_it(programs: Path, tmp_path: Path) -> None:
    add(programs, "mvn", "exit 0")
    create = 'for option; do case "$option" in -XX:Archive*) echo created >> "${option#*=}"; esac; done'
    add(programs, "java", f"{JDK}; {create}; exit 1")
    assert kafka_jars.download(tmp_path) is None
    assert kafka_jars.download(tmp_path) is None
    archive = tmp_path / kafka_jars.CLASS_ARCHIVE
    assert archive.read_text() == "created\n"
    command = kafka_jars.program(tmp_path, "Tool")
    assert f"-XX:SharedArchiveFile={archive}" in command and command[-1] == "Tool"
