"""Download the jars of Apache Kafka with Maven; where this is impossible, print the reason in one line.

`python -m tests.reference_software.kafka_jars DIRECTORY` ends with 0 if DIRECTORY has the jars, else with 1.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

POM: Final = Path(__file__).parents[1] / "kafka" / "pom.xml"
JAVA_VERSION_MIN: Final = 17
DOWNLOAD_S_MAX: Final = 300
PROGRAM_S_MAX: Final = 60
CLASS_ARCHIVE: Final = "tools.jsa"
"""The loaded classes of a tool, in the directory of the jars: with it, tools start with half of the CPU."""
PROGRAM_OPTIONS: Final = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xlog:disable")
"""The options of tools, with which the archive is written, too. An archive of other jars is ignored."""
_GROUPS_TOOL: Final = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_NO_SERVER: Final = "127.0.0.1:1"
_MODULE: Final = re.compile(r"^jdk\.compiler@(\d+)", re.MULTILINE)
_ERROR: Final = re.compile(r"^\[ERROR\] *(?:\[ERROR\] *)?(\S.*)$", re.MULTILINE)


def download(directory: Path) -> str | None:
    """Let `directory` have the jars, and no others. Return the reason if it is not possible, else None.

    Maven copies them to a new directory, which replaces the former one if they differ. A copy that does not
    end therefore changes nothing.
    """
    reason = _reason_not_usable()
    if reason is not None:
        return reason
    directory = directory.resolve()
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=f"{directory.name}-") as temporary:
        copy = Path(temporary) / "jars"
        copy.mkdir()
        reason = _copy_jars(copy)
        if reason is not None:
            return reason
        if _sizes(copy) != _sizes(directory):
            shutil.rmtree(directory, ignore_errors=True)
            copy.rename(directory)
    _write_class_archive(directory)
    return None


def _copy_jars(directory: Path) -> str | None:
    """Let Maven copy the jars into an empty directory. Return the reason if it is not possible, else None."""
    options = ("--batch-mode", "--quiet", "--file", str(POM))
    goal = ("dependency:copy-dependencies", f"-DoutputDirectory={directory}")
    try:
        done = _run("mvn", *options, *goal, timeout_s=DOWNLOAD_S_MAX)
    except subprocess.TimeoutExpired:
        return f"Maven has not downloaded Apache Kafka within {DOWNLOAD_S_MAX} s"
    except OSError as error:
        return f"Maven cannot be started: {error}"
    if done.returncode:
        line = _ERROR.search(done.stdout + done.stderr)
        text = f"exit code {done.returncode}" if line is None else line[1]
        return f"Maven cannot download Apache Kafka: {text}"
    return None


def _sizes(directory: Path) -> dict[str, int]:
    """Return the names of the jars in `directory`, which may not exist, with their sizes."""
    return {path.name: path.stat().st_size for path in directory.glob("*.jar")}


def program(jars: Path, main_class: str, *options: str) -> list[str]:
    """Return the command of a program in `jars`, up to its own arguments."""
    archive = f"-XX:SharedArchiveFile={jars / CLASS_ARCHIVE}"
    return ["java", *PROGRAM_OPTIONS, *(options or (archive,)), "-cp", f"{jars}/*", main_class]


def _write_class_archive(directory: Path) -> None:
    """Write the archive, by a tool that finds no server. Without it, programs only start more slowly."""
    archive = directory / CLASS_ARCHIVE
    if not archive.exists():
        command = program(directory, _GROUPS_TOOL, f"-XX:ArchiveClassesAtExit={archive}")
        arguments = ("--bootstrap-server", _NO_SERVER, "--list", "--timeout", "500")
        with suppress(subprocess.TimeoutExpired):
            _run(*command, *arguments, timeout_s=PROGRAM_S_MAX)


def _reason_not_usable() -> str | None:
    """Return why Java or Maven cannot be used here, or None."""
    for name in ("java", "mvn"):
        if shutil.which(name) is None:
            return f"{name} is not installed"
    # A program of the tests is compiled when it starts: a runtime without a compiler is not enough.
    try:
        modules = _run("java", "--list-modules", timeout_s=PROGRAM_S_MAX).stdout
    except subprocess.TimeoutExpired:
        return f"Java has not listed its modules within {PROGRAM_S_MAX} s"
    except OSError as error:
        return f"Java cannot be started: {error}"
    compiler = _MODULE.search(modules)
    if compiler is None or int(compiler[1]) < JAVA_VERSION_MIN:
        present = "one without a compiler" if compiler is None else compiler[1]
        return f"a JDK {JAVA_VERSION_MIN} or newer is needed, installed is {present}"
    return None


def _run(*command: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


if __name__ == "__main__":
    reason_not_available = download(Path(sys.argv[1]).absolute())
    if reason_not_available is not None:
        print(reason_not_available)
        sys.exit(1)
