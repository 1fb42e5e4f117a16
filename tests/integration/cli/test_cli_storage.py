"""`tidelog storage`: format, info and random-uuid."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cli import tidelog_failure, tidelog_output
from tidelog.protocol.ids import uuid_from_text

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(
        f"""
        process.roles=controller
        node.id=1
        controller.quorum.bootstrap.servers=localhost:9093
        controller.listener.names=CONTROLLER
        listeners=CONTROLLER://:9093
        log.dirs={tmp_path}/data
        """
    )
    return path


def test_random_uuid_is_valid_for_kafka() -> None:
    assert uuid_from_text(tidelog_output("storage", "random-uuid").strip()).version == 4


def test_a_standalone_controller_is_formatted_and_shown(properties: Path, tmp_path: Path) -> None:
    (before,) = json.loads(tidelog_output("storage", "info", "-c", str(properties), "--json"))
    assert not before["formatted"]
    line = tidelog_output("storage", "format", "-c", str(properties), "-t", CLUSTER_ID, "--standalone")
    assert line.startswith("Formatted metadata directory")
    (after,) = json.loads(tidelog_output("storage", "info", "-c", str(properties), "--json"))
    assert (after["cluster_id"], after["node_id"]) == (CLUSTER_ID, 1)
    assert CLUSTER_ID in tidelog_output("storage", "info", "-c", str(properties))
    directory = tmp_path / "data" / "__cluster_metadata-0"
    assert [path.name for path in directory.iterdir()] == ["00000000000000000000-0000000000.checkpoint"]
    line = tidelog_failure("storage", "format", "-c", str(properties), "-t", CLUSTER_ID, "-s", code=2)
    assert "already formatted" in line


def test_a_controller_requires_the_list_of_voters(properties: Path) -> None:
    line = tidelog_failure("storage", "format", "-c", str(properties), "-t", CLUSTER_ID, code=2)
    assert "--standalone" in line
    tidelog_output("storage", "format", "-c", str(properties), "-t", CLUSTER_ID, "--no-initial-controllers")


def test_options_that_exclude_each_other_are_refused(properties: Path) -> None:
    line = tidelog_failure("storage", "format", "-c", str(properties), "-t", CLUSTER_ID, "-s", "-N", code=2)
    assert "exclude each other" in line


def test_standalone_is_refused_with_static_voters(properties: Path) -> None:
    override = "controller.quorum.voters=1@localhost:9093"
    line = tidelog_failure(
        "storage", "format", "-c", str(properties), "-t", CLUSTER_ID, "-s", "--override", override, code=2
    )
    assert "dynamic voters" in line
