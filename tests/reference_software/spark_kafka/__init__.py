"""Spark's own Kafka source, whose separate jars must be downloaded first."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

VARIABLE: Final = "TIDELOG_SPARK_KAFKA_JARS"
"""Names the folder that `make bench-spark-kafka` fills with Maven from the pom.xml next to this file."""


def spark_kafka_jars() -> list[str]:
    """Return the jars for `spark.jars`; empty if the variable is not set.

    Raise FileNotFoundError if it names a folder without the connector.
    """
    folder = os.environ.get(VARIABLE)
    if not folder:
        return []
    jars = sorted(str(path) for path in Path(folder).glob("*.jar"))
    if not any("spark-sql-kafka" in jar for jar in jars):
        raise FileNotFoundError(f"{VARIABLE}: there is no spark-sql-kafka in {folder}")
    return jars
