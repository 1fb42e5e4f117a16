"""Settings of a Spark session with a local master."""

from __future__ import annotations

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
