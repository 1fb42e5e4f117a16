"""What a Spark is told on this machine, whoever starts it: jobs, tests and benchmarks."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

LOOPBACK: Final[Mapping[str, str]] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""For a master that is local alone: executors elsewhere could not reach the driver."""


def quiet_settings(folder: Path) -> dict[str, str]:
    """No web pages and no progress bar; Spark's own files are in `folder`."""
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }


def run_workers_from(checkout: Path) -> None:
    """Let the sessions of this process run their workers by this Python, with the modules of `checkout`.

    Planners and workers are processes of their own, which what this one added to its path does not reach.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(checkout), os.environ.get("PYTHONPATH")]))
