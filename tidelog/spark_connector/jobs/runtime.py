"""Whether Spark can run here: the extra's packages, and a Java that is new enough (shell).

Looked at before anything is started, as PySpark's own answers to this are tracebacks.
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
    """Return when Spark can be started. Errors: JobFailure naming what to install."""
    missing = missing_packages("spark", *PACKAGES)
    if missing:
        raise JobFailure(f"Spark {missing}")
    require_java(os.environ if environment is None else environment)


def require_java(environment: Mapping[str, str]) -> None:
    """Return when the Java that Spark would take is new enough. Errors: JobFailure."""
    java = java_command(environment)
    if java is None:
        raise JobFailure(f"Spark needs Java, and there is none on the PATH: {_WHERE_JAVA}")
    try:
        asked = subprocess.run([java, "-version"], capture_output=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JobFailure(f"Spark needs Java, and {java} does not run ({error}): {_WHERE_JAVA}") from error
    text = (asked.stderr + asked.stdout).decode(errors="replace")
    major = java_major(text)
    if asked.returncode != 0 or major is None:
        raise JobFailure(f"Spark needs Java, and {java} -version says {text.strip()!r}: {_WHERE_JAVA}")
    if major < JAVA_MIN:
        raise JobFailure(f"Spark needs Java {JAVA_MIN} or later, and {java} is Java {major}: {_WHERE_JAVA}")


def java_command(environment: Mapping[str, str]) -> str | None:
    """The program that Spark starts: of JAVA_HOME, else of the PATH."""
    home = environment.get("JAVA_HOME")
    if home:
        return str(Path(home) / "bin" / "java")
    return shutil.which("java", path=environment.get("PATH", ""))


def java_major(text: str) -> int | None:
    """The version in what `java -version` prints: 17 of "17.0.9", 8 of "1.8.0_392"; None without one."""
    found = _VERSION.search(text)
    if found is None:
        return None
    first = int(found[1])
    return int(found[2]) if first == 1 and found[2] else first
