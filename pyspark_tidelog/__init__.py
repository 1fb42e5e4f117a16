"""Registers `format("tidelog")`: PySpark imports every package whose name begins with `pyspark_`."""

from tidelog.spark_connector.source import TidelogSource as DefaultSource

__all__ = ["DefaultSource"]
