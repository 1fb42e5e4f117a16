"""Found by PySpark, which looks for packages of this name: makes `format("tidelog")` known by itself."""

from tidelog.spark_connector.source import TidelogSource as DefaultSource

__all__ = ["DefaultSource"]
