"""Spark's way into Tidelog, or into any Kafka cluster: a PySpark data source in Python alone.

Needs the extra `spark` (pyspark, pyarrow, numpy).
"""
