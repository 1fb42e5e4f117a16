"""A local Spark session for tests, or a skip with the reason."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tidelog.spark_connector
from tests.support.paths import ROOT
from tidelog.spark_connector.jobs.local_settings import LOOPBACK, quiet_settings

QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For short queries, the JVM's second compiler costs half of all CPU time and saves less."""


def _use_checkout_in_workers() -> None:
    """Run the workers of this process's sessions with this Python and the modules of this checkout.

    Planners and workers are separate processes, which do not see changes of this process's path.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))


def require_java() -> None:
    """Skip the test with a reason if there is no Java."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java 17 or later: there is no java on the PATH and JAVA_HOME is not set")


@contextmanager
def local_spark(folder: Path, jars: Sequence[str] = ()) -> Iterator[SparkSession]:
    """Yield a session with two concurrent tasks, whose workers run this Python; its files are in `folder`.

    A process has one session. If a session is already running, yield that one and leave it running.
    """
    require_java()
    if (running := SparkSession.getActiveSession()) is not None:
        yield running
        return
    _use_checkout_in_workers()
    builder = tidelog.spark_connector.configure(SparkSession.builder.master("local[2]"))
    settings: dict[str, bool | float | int | str | None] = {
        **quiet_settings(folder),
        **LOOPBACK,
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": QUICK_JVM,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.task.maxFailures": "1",
    }
    if jars:
        settings["spark.jars"] = ",".join(jars)
    session = builder.config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()
