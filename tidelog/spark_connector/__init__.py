"""A PySpark data source for Tidelog and any Kafka cluster, in pure Python.

    import tidelog.spark_connector
    tidelog.spark_connector.register(spark)
    spark.read.format("tidelog").option("kafka.bootstrap.servers", "localhost:9092")...

Needs the extra `spark` (pyspark, pyarrow, numpy).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["configure", "register"]

LOWEST_PYSPARK = "4.2"

SETTINGS: dict[str, bool | float | int | str | None] = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "tidelog.spark_connector.worker_daemon",
}
"""Python data sources are faster with these settings: a task costs about 10 ms instead of 30 ms.

The package must be installed in the Python of the executors; `--py-files` does not suffice.
"""


def register(spark: SparkSession) -> None:
    """Register `format("tidelog")` in a session that did not find `pyspark_tidelog` by itself.

    Errors: ImportError, one sentence, if PySpark is too old.
    """
    try:
        from tidelog.spark_connector.source import TidelogSource
    except ImportError as error:
        raise ImportError(unavailable_text(error)) from error

    spark.dataSource.register(TidelogSource)


def unavailable_text(error: ImportError) -> str:
    """Return a sentence about why the source cannot be loaded: most often an older version of PySpark."""
    try:
        from pyspark import __version__ as installed_version
    except ImportError:
        installed_version = "missing"
    return (
        f"the data source 'tidelog' cannot be loaded: {error}; it needs pyspark {LOWEST_PYSPARK} or later"
        f" (this one is {installed_version}) and the packages of tidelog[spark]"
    )


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Apply `SETTINGS` to the builder of a new session."""
    return builder.config(map=SETTINGS)
