"""Spark's own Kafka source compared with ours; only `make test-spark-kafka` runs these tests.

The Makefile downloads the jars with Maven into a cache folder, and passes it in TIDELOG_SPARK_KAFKA_JARS.
"""

from __future__ import annotations

from tests.reference_software.spark_kafka import spark_kafka_jars

# Not collected by `make test`, and so not reported as skipped: the tests need Maven.
collect_ignore_glob = [] if spark_kafka_jars() else ["test_*.py"]
