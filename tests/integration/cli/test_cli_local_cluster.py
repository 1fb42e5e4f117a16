"""`tidelog cluster start|status|kill|logs|stop`: three processes on this machine, controlled by commands."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidelog.local_cluster.cluster import LocalCluster
from tidelog.local_cluster.layout import QUICK_TIMEOUTS
from tidelog.local_cluster.ports import free_ports

TIMEOUT_S = 120


def tidelog(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tidelog.cli.main", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Create a cluster that the commands start; kill its remaining processes at the end."""
    local_cluster = LocalCluster.create(tmp_path / "cluster", 3, settings=QUICK_TIMEOUTS)
    yield local_cluster
    local_cluster.remove()


def status(folder: Path) -> list[dict[str, object]]:
    result = tidelog("cluster", "status", "-d", str(folder), "--json")
    assert result.returncode == 0, result.stderr
    nodes: list[dict[str, object]] = json.loads(result.stdout)
    return nodes


def test_a_cluster_is_started_used_damaged_repaired_and_stopped(cluster: LocalCluster) -> None:
    folder = cluster.layout.folder
    started = tidelog("cluster", "start", "-d", str(folder))
    assert started.returncode == 0, started.stderr
    assert "3 nodes are ready" in started.stdout and cluster.bootstrap_servers in started.stdout
    assert f"tidelog cluster stop -d {folder}\n" in started.stdout
    assert [node["serves"] for node in status(folder)] == [True, True, True]
    servers = cluster.bootstrap_servers
    lines = "".join(f"line {number}\n" for number in range(200))
    assert tidelog("topic", "create", "tides", "-p", "3", "-r", "3", "-b", servers).returncode == 0
    assert tidelog("produce", "tides", "-b", servers, stdin=lines).returncode == 0
    assert tidelog("cluster", "kill", "2", "-d", str(folder)).returncode == 0
    assert [node["pid"] is None for node in status(folder)] == [False, True, False]
    assert tidelog("produce", "tides", "-b", servers, stdin=lines).returncode == 0
    again = tidelog("cluster", "start", "-d", str(folder))
    assert again.returncode == 0, again.stderr
    read = tidelog("consume", "tides", "-b", servers, "-o", "beginning", "-e")
    assert sorted(read.stdout.splitlines()) == sorted(2 * lines.splitlines())
    assert "broker 2 is ready" in tidelog("cluster", "logs", "2", "-d", str(folder)).stdout
    stopped = tidelog("cluster", "stop", "-d", str(folder))
    assert stopped.returncode == 0, stopped.stderr
    assert cluster.running == []


def test_a_directory_without_a_cluster_and_an_unknown_node_are_one_line_errors(
    tmp_path: Path, cluster: LocalCluster
) -> None:
    nothing = tidelog("cluster", "status", "-d", str(tmp_path / "nowhere"))
    assert nothing.returncode == 2 and "has no cluster" in nothing.stderr
    assert len(nothing.stderr.strip().splitlines()) == 1
    unknown = tidelog("cluster", "kill", "7", "-d", str(cluster.layout.folder))
    assert unknown.returncode == 2 and "there is no node 7; nodes are 1, 2, 3" in unknown.stderr
    full = tmp_path / "full"
    full.mkdir()
    (full / "file").write_text("mine")
    result = tidelog("cluster", "start", "-d", str(full))
    assert result.returncode == 2 and "neither empty nor the directory of a cluster" in result.stderr


@pytest.mark.parametrize(
    "options", [["--tiered"], ["--nodes", "5"], ["--port", "1"], ["-o", "log.roll.ms=9"]]
)
def test_options_of_a_new_cluster_are_refused_for_an_existing_one(
    cluster: LocalCluster, options: list[str]
) -> None:
    """Check options without which a cluster started with "--tiered" would never copy its segments."""
    result = tidelog("cluster", "start", "-d", str(cluster.layout.folder), *options)
    assert result.returncode == 2 and "differs from the cluster in" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert cluster.running == []


def test_a_secured_cluster_is_started_used_with_its_client_file_and_restarted(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    options = [argument for key, value in QUICK_TIMEOUTS.items() for argument in ("-o", f"{key}={value}")]
    first_port = str(free_ports(6)[0])
    try:
        started = tidelog(
            "cluster", "start", "--secure", "-n", "3", "-p", first_port, "-d", str(folder), *options
        )
        assert started.returncode == 0, started.stderr
        file = folder / "client.properties"
        assert f"export TIDELOG_COMMAND_CONFIG={file}" in started.stdout
        assert file.stat().st_mode & 0o777 == 0o600
        password = json.loads((folder / "security" / "security.json").read_text())["users"]["admin"]
        assert password not in started.stdout
        assert [node["serves"] for node in status(folder)] == [True, True, True]
        client = ("--command-config", str(file))
        assert tidelog("topic", "create", "tides", "-r", "3", *client).returncode == 0
        assert tidelog("produce", "tides", *client, stdin="a\n").returncode == 0
        assert tidelog("cluster", "kill", "2", "-d", str(folder)).returncode == 0
        again = tidelog("cluster", "start", "--secure", "-d", str(folder))
        assert again.returncode == 0, again.stderr
        assert tidelog("consume", "tides", "-e", *client).stdout == "a\n"
        unsecured = tidelog("topic", "list", "-b", LocalCluster.open(folder).layout.nodes[0].address)
        assert unsecured.returncode == 1
    finally:
        LocalCluster.open(folder).remove()
