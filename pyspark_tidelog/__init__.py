"""Registers `format("tidelog")`: PySpark imports every package whose name begins with `pyspark_`."""

import warnings

from tidelog.spark_connector import unavailable_text

__all__ = ["DefaultSource"]

try:
    from tidelog.spark_connector.source import TidelogSource as DefaultSource
except ImportError as error:
    # Spark imports this package when it looks up any data source: an error would disable all of them.
    warnings.warn(unavailable_text(error), stacklevel=1)
