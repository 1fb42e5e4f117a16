"""Settings of a local Spark, for jobs, tests and benchmarks."""

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
"""Only for a local master: executors elsewhere could not reach the driver."""


def quiet_settings(folder: Path) -> dict[str, str]:
    """Return settings without web pages and progress bar; Spark's own files are in `folder`."""
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }


def run_workers_from(checkout: Path) -> None:
    """Run the workers of this process's sessions with this Python and the modules of `checkout`.

    Planners and workers are separate processes, which do not see changes of this process's path.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(checkout), os.environ.get("PYTHONPATH")]))
