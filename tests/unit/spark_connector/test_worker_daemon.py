from __future__ import annotations

from importlib import import_module

import pytest

from tidelog.spark_connector import SETTINGS
from tidelog.spark_connector.worker_daemon import WORKER_ENDS, without_broken_pipes


def test_a_connection_that_spark_has_closed_ends_the_worker_without_an_error() -> None:
    def worker(sock: object, authenticated: bool) -> int:
        raise BrokenPipeError(32, "Broken pipe")

    assert without_broken_pipes(worker)("socket", True) == WORKER_ENDS


def test_results_and_other_errors_of_a_worker_are_unchanged() -> None:
    def worker(sock: object, authenticated: bool) -> int:
        if sock is None:
            raise ConnectionResetError
        return int(authenticated)

    run = without_broken_pipes(worker)
    assert [run("socket", False), run("socket", True)] == [0, 1]
    with pytest.raises(ConnectionResetError):
        run(None, True)


def test_the_setting_names_a_module_that_runs_pysparks_daemon() -> None:
    assert callable(import_module(str(SETTINGS["spark.python.daemon.module"])).main)
