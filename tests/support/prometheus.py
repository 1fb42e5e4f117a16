"""Prometheus and its tool `promtool`, if they are installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from tests.support.waiting import wait_until
from tidelog.local_cluster.ports import free_ports


def program(name: str) -> str:
    """Return the path of the program, from TIDELOG_PROMETHEUS or PATH; skip the test if there is none."""
    folder = os.environ.get("TIDELOG_PROMETHEUS")
    path = shutil.which(name, path=folder)
    if path is None:
        pytest.skip(f"{name} is not installed; set TIDELOG_PROMETHEUS to the directory that contains it")
    return path


def check(*arguments: str, text: str = "", folder: Path | None = None) -> None:
    """Run `promtool` with `text` as its input; AssertionError with its output if it finds a problem."""
    ended = subprocess.run(
        [program("promtool"), *arguments], input=text, text=True, capture_output=True, cwd=folder, check=False
    )
    assert ended.returncode == 0 and "error" not in ended.stderr, ended.stdout + ended.stderr


class PrometheusServer:
    """The HTTP interface of a running Prometheus."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def get(self, path: str, **parameters: str) -> Any:
        """Return the data of a response."""
        with urlopen(f"{self._url}{path}?{urlencode(parameters)}", timeout=10) as response:
            document = json.load(response)
        assert document["status"] == "success", document
        return document["data"]

    def values(self, expression: str) -> list[float]:
        """Return the current values of an expression."""
        result = self.get("/api/v1/query", query=expression)["result"]
        return [float(sample["value"][1]) for sample in result]

    def is_ready(self) -> bool:
        """Return whether the server accepts queries."""
        try:
            with urlopen(f"{self._url}/-/ready", timeout=10):
                return True
        except OSError:
            return False


@contextmanager
def running_prometheus(folder: Path, rules: Path, targets: list[str]) -> Iterator[PrometheusServer]:
    """Run a Prometheus that reads `targets` every second as the job tidelog, until the end of the block."""
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "scrape_configs": [{"job_name": "tidelog", "static_configs": [{"targets": targets}]}],
    }
    config_path = folder / "prometheus.json"
    config_path.write_text(json.dumps(config))
    (port,) = free_ports(1)
    command = [
        program("prometheus"),
        f"--config.file={config_path}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "prometheus.log").open("wb") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            server = PrometheusServer(port)
            wait_until(server.is_ready)
            yield server
        finally:
            process.terminate()
