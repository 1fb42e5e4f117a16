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


OLDER_PYSPARK = """
import sys, warnings
import pyspark, pyspark.sql.datasource
pyspark.__version__ = "4.0.1"
del pyspark.sql.datasource.DataSourceStreamArrowWriter
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import pyspark_tidelog
assert not hasattr(pyspark_tidelog, "DefaultSource")
print([str(warning.message) for warning in caught if "tidelog" in str(warning.message)])
import tidelog.spark_connector
try:
    tidelog.spark_connector.register(None)
except ImportError as error:
    print(error)
"""


def test_an_older_pyspark_is_explained_in_one_sentence_and_other_sources_still_work() -> None:
    command = [sys.executable, "-c", OLDER_PYSPARK]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    warned, raised = outcome.stdout.splitlines()
    sentence = "it needs pyspark 4.2 or later (this one is 4.0.1) and the packages of tidelog[spark]"
    assert sentence in warned and sentence in raised
