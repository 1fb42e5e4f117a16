"""A Spark session for one job: quiet, in UTC, its files in a temporary folder (shell).

The output of the JVM and Spark's workers goes to a file, and a failure shows its important line. With
TIDELOG_LOG_LEVEL in the environment, all output is shown.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tidelog.base.dataclass import dataclass
from tidelog.spark_connector import SETTINGS, register
from tidelog.spark_connector.jobs.failures import JobFailure, cause_in
from tidelog.spark_connector.jobs.local_settings import LOOPBACK, quiet_settings
from tidelog.spark_connector.jobs.runtime import require_spark

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

LOG_LEVEL_VARIABLE: Final = "TIDELOG_LOG_LEVEL"
LOCAL_MASTER: Final = "local[*]"
# Set if spark-submit started this process: it has then chosen the master.
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """Settings of a session. `master` None: this machine, or spark-submit's. `conf` overrides the others."""

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def job_session(name: str, settings: SessionSettings) -> Iterator[SparkSession]:
    """Provide a session and stop it at the end; if this process has a context, provide a session of it.

    Errors: JobFailure if Spark cannot be started, and for a failed query.
    """
    require_spark()
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    # Another thread may have created it. There can be no second context, and a job must not stop this one.
    if SparkContext._active_spark_context is not None:
        with spark_errors():
            yield _prepare(SparkSession.builder.getOrCreate().newSession())
        return
    with tempfile.TemporaryDirectory(prefix="tidelog-spark-", ignore_cleanup_errors=True) as folder:
        session = _start(name, settings, Path(folder))
        try:
            with spark_errors():
                yield _prepare(session)
        finally:
            session.stop()


@contextmanager
def spark_errors() -> Iterator[None]:
    """Convert errors of Spark to JobFailure with one line."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    # PySpark logs the errors that it raises, with much context.
    logger = logging.getLogger("SQLQueryContextLogger")
    level = logger.level
    logger.setLevel(level if LOG_LEVEL_VARIABLE in os.environ else logging.CRITICAL + 1)
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise JobFailure(cause_in(str(error))) from error
    finally:
        logger.setLevel(level)


def _prepare(session: SparkSession) -> SparkSession:
    session.conf.set("spark.sql.session.timeZone", "UTC")
    register(session)
    return session


def _start(name: str, settings: SessionSettings, folder: Path) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    conf = SparkConf().setAppName(f"tidelog {name}").setAll(list(_conf(settings, folder).items()))
    log = folder / "spark.log"
    try:
        context = SparkContext(conf=conf, gateway=_gateway(conf, log))
        session = SparkSession.builder.getOrCreate()
    except Exception as error:
        output = log.read_text(errors="replace") if log.exists() else ""
        raise JobFailure(f"Spark did not start: {cause_in(output or str(error))}") from error
    context.setLogLevel(_log_level())
    return session


def _gateway(conf: SparkConf, log: Path) -> Any:
    """Return a JVM that prints to `log`; None if there is one already, or if all output is shown."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    if LOG_LEVEL_VARIABLE in os.environ or _SUBMITTED in os.environ or SparkContext._gateway is not None:
        return None
    with log.open("ab") as output:
        return launch_gateway(conf, {"stdout": output, "stderr": output})  # type: ignore[no-untyped-call]


def _log_level() -> str:
    """Return Spark's name for the log level in the environment."""
    level = os.environ.get(LOG_LEVEL_VARIABLE, "error").upper()
    return {"WARNING": "WARN", "CRITICAL": "FATAL", "NOTSET": "ALL"}.get(level, level)


def _conf(settings: SessionSettings, folder: Path) -> dict[str, str]:
    conf = {
        **{key: str(value) for key, value in SETTINGS.items()},
        **quiet_settings(folder),
    }
    master = settings.master or (None if _SUBMITTED in os.environ else LOCAL_MASTER)
    if master is not None:
        conf["spark.master"] = master
    if master is not None and master.startswith("local"):
        conf |= {
            **LOOPBACK,
            # A retry on the same machine would fail in the same way.
            "spark.task.maxFailures": "1",
            "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
        }
        # Workers must use this Python, not the first one on the PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return {**conf, **settings.conf}
