"""Checks that Spark can run: the packages of the extra, and a recent Java (shell).

This is checked before anything starts, because PySpark's own errors for it are tracebacks.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tidelog.base.extras import missing_packages
from tidelog.spark_connector.jobs.failures import JobFailure

PACKAGES: Final = ("pyspark", "pyarrow", "numpy")
JAVA_MIN: Final = 17
_VERSION: Final = re.compile(r'version "(\d+)(?:\.(\d+))?')
_TIMEOUT_S: Final = 30
_WHERE_JAVA: Final = (
    f"install Java {JAVA_MIN} or later (Debian: openjdk-{JAVA_MIN}-jre-headless), or set JAVA_HOME"
)


def require_spark(environment: Mapping[str, str] | None = None) -> None:
    """Raise JobFailure, which names what to install, if Spark cannot be started."""
    missing = missing_packages("spark", *PACKAGES)
    if missing:
        raise JobFailure(f"Spark {missing}")
    require_java(os.environ if environment is None else environment)


def require_java(environment: Mapping[str, str]) -> None:
    """Raise JobFailure if the Java that Spark would use is missing or too old."""
    java = java_command(environment)
    if java is None:
        raise JobFailure(f"Spark needs Java, and none is on the PATH: {_WHERE_JAVA}")
    try:
        completed = subprocess.run([java, "-version"], capture_output=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JobFailure(f"Spark needs Java, and {java} does not run ({error}): {_WHERE_JAVA}") from error
    text = (completed.stderr + completed.stdout).decode(errors="replace")
    major = java_major(text)
    if completed.returncode != 0 or major is None:
        raise JobFailure(f"Spark needs Java, and {java} -version prints {text.strip()!r}: {_WHERE_JAVA}")
    if major < JAVA_MIN:
        raise JobFailure(f"Spark needs Java {JAVA_MIN} or later, and {java} is Java {major}: {_WHERE_JAVA}")


def java_command(environment: Mapping[str, str]) -> str | None:
    """Return the Java program that Spark starts: from JAVA_HOME, else from the PATH; None without one."""
    home = environment.get("JAVA_HOME")
    if home:
        return str(Path(home) / "bin" / "java")
    return shutil.which("java", path=environment.get("PATH", ""))


def java_major(text: str) -> int | None:
    """Return the major version in the output of `java -version`: 17 for "17.0.9", 8 for "1.8.0_392"."""
    match = _VERSION.search(text)
    if match is None:
        return None
    first = int(match[1])
    return int(match[2]) if first == 1 and match[2] else first
