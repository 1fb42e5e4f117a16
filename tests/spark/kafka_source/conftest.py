"""Spark's own Kafka source beside ours: run by `make test-spark-kafka` alone.

The Makefile takes its jars from Maven into a cache folder and names it in TIDELOG_SPARK_KAFKA_JARS.
"""

from __future__ import annotations

from benchmarks.spark_kafka import spark_kafka_jars

# Not collected, and so not reported as skipped, by `make test`: it needs Maven.
collect_ignore_glob = [] if spark_kafka_jars() else ["test_*.py"]
