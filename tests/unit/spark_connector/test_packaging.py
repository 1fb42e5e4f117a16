"""Only the Spark data source needs the extra `spark`."""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT_THE_EXTRA = """
import sys
for name in ("pyspark", "pyarrow", "numpy"):
    sys.modules[name] = None  # importing it raises ImportError
import {module}
"""


@pytest.mark.parametrize(
    "module",
    ["tidelog", "tidelog.cli.main", "tidelog.clients.consumer.partition_reader", "tidelog.spark_connector"],
)
def test_only_the_data_source_imports_spark(module: str) -> None:
    code = WITHOUT_THE_EXTRA.format(module=module)
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr


def test_planning_needs_neither_spark_nor_arrow() -> None:
    code = WITHOUT_THE_EXTRA.format(module="tidelog.spark_connector.reading.range_reader")
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
