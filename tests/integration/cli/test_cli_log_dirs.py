"""`tidelog topic log-dirs` shows and moves replicas between log directories."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.cli import tidelog_failure, tidelog_output
from tidelog.testing.embedded import EmbeddedCluster


def test_replicas_are_moved_between_log_directories(tmp_path: Path) -> None:
    directories = [str(tmp_path / name) for name in ("first", "second")]
    with EmbeddedCluster(config={"log.dirs": ",".join(directories)}, data_dir=tmp_path) as cluster:
        servers = cluster.bootstrap_servers

        def run(*arguments: str) -> str:
            return tidelog_output(*arguments, bootstrap=servers)

        def fail(*arguments: str, code: int = 1) -> str:
            return tidelog_failure(*arguments, bootstrap=servers, code=code)

        run("topic", "create", "tides", "-p", "1")
        (row,) = json.loads(run("topic", "log-dirs", "tides", "--json"))
        assert (row["topic"], row["partition"], row["broker"], row["lag"]) == ("tides", 0, 1, 0)
        assert (row["future_log_dir"], row["future_lag"]) == (None, None)
        target = next(path for path in directories if path != row["log_dir"])
        moved = run("topic", "log-dirs", "tides", "--broker", "1", "--to", target, "--wait")
        assert moved == f"moved tides-0 on broker 1 to {target}\n"
        shown = run("topic", "log-dirs", "tides:0").splitlines()
        assert shown[0].split()[:5] == ["TOPIC", "PARTITION", "BROKER", "LOG", "DIR"]
        assert shown[1].split()[:5] == ["tides", "0", "1", target, "0"]
        assert "LOG_DIR_NOT_FOUND" in fail("topic", "log-dirs", "tides", "--broker", "1", "--to", "/none")
        assert "--broker" in fail("topic", "log-dirs", "tides", "--to", target, code=2)
        assert "no replica" in fail("topic", "log-dirs", "tides", "--broker", "7", "--to", target, code=2)
        assert "give topics" in fail("topic", "log-dirs", code=2)
