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


COPY = """
for option; do case "$option" in -DoutputDirectory=*) directory="${option#*=}"; esac; done
copy() { echo "$2" > "$directory/$1"; }
"""
"""The start of a Maven, with the function `copy NAME CONTENTS`."""


def test_a_java_that_does_not_end_is_the_reason(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_jars, "PROGRAM_S_MAX", 0.1)
    add(programs, "java", "while :; do :; done")
    add(programs, "mvn", "exit 0")
    assert kafka_jars.download(tmp_path) == "Java has not listed its modules within 0.1 s"


@pytest.mark.parametrize(("name", "title"), [("java", "Java"), ("mvn", "Maven")])
def test_a_program_that_cannot_be_started_is_the_reason(
    programs: Path, tmp_path: Path, name: str, title: str
) -> None:
    add(programs, "java", JDK)
    add(programs, "mvn", "exit 0")
    (programs / name).write_bytes(b"\x7fELF")
    reason = kafka_jars.download(tmp_path / "jars")
    assert reason is not None and reason.startswith(f"{title} cannot be started: [Errno 8] Exec format error")


def test_maven_copies_the_jars_into_the_directory(programs: Path, tmp_path: Path) -> None:
    add(programs, "java", JDK)
    add(programs, "mvn", f'{COPY} copy a.jar a; echo "$@" > "{tmp_path}/arguments"')
    jars = tmp_path / "cache" / "jars"
    assert kafka_jars.download(jars) is None
    assert [path.name for path in jars.iterdir()] == ["a.jar"]
    assert list(jars.parent.iterdir()) == [jars]
    arguments = (tmp_path / "arguments").read_text().split()
    assert arguments[-2] == "dependency:copy-dependencies"
    assert Path(arguments[arguments.index("--file") + 1]).is_file()


def test_a_copy_that_is_interrupted_leaves_no_truncated_jar(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(programs, "java", JDK)
    jars = tmp_path / "cache" / "jars"
    add(programs, "mvn", f"{COPY} copy a.jar trunc; exit 1")
    assert kafka_jars.download(jars) == "Maven cannot download Apache Kafka: exit code 1"
    assert not jars.exists()
    add(programs, "mvn", f"{COPY} copy a.jar complete")
    assert kafka_jars.download(jars) is None
    monkeypatch.setattr(kafka_jars, "DOWNLOAD_S_MAX", 0.1)
    add(programs, "mvn", f"{COPY} copy a.jar trunc; while :; do :; done")
    assert kafka_jars.download(jars) is not None
    assert (jars / "a.jar").read_text() == "complete\n"
    assert list(jars.parent.iterdir()) == [jars]


def test_jars_of_earlier_versions_and_truncated_ones_are_replaced(programs: Path, tmp_path: Path) -> None:
    add(programs, "java", JDK)
    add(programs, "mvn", f"{COPY} copy a-2.jar complete")
    jars = tmp_path / "jars"
    jars.mkdir()
    (jars / "a-1.jar").touch()
    assert kafka_jars.download(jars) is None
    assert [path.name for path in jars.iterdir()] == ["a-2.jar"]
    (jars / "a-2.jar").write_text("trunc")
    assert kafka_jars.download(jars) is None
    assert (jars / "a-2.jar").read_text() == "complete\n"


def test_an_archive_of_classes_is_written_once_and_tools_use_it(programs: Path, tmp_path: Path) -> None:
    add(programs, "mvn", f"{COPY} copy a.jar a")
    jars = tmp_path / "jars"
    create = 'for option; do case "$option" in -XX:Archive*) echo created >> "${option#*=}"; esac; done'
    add(programs, "java", f"{JDK}; {create}; exit 1")
    assert kafka_jars.download(jars) is None
    assert kafka_jars.download(jars) is None
    archive = jars / kafka_jars.CLASS_ARCHIVE
    assert archive.read_text() == "created\n"
    command = kafka_jars.program(jars, "Tool")
    assert f"-XX:SharedArchiveFile={archive}" in command and command[-1] == "Tool"
