"""docs/compatibility.md lists the API versions that a running cluster serves."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.network.raw_client import RawClient
from tests.support.paths import ROOT
from tidelog.local_cluster.layout import read_layout
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.registry import APIS
from tidelog.testing.embedded import EmbeddedCluster

ROW = re.compile(r"^\| (\d+) \| (\w+) \| ([\d-]+) \| ([\d-]+|no) \| ([\d-]+|no) \| .*\|$", re.MULTILINE)
NOT_SERVED = "no"


def test_the_table_of_apis_is_what_a_cluster_serves(tmp_path: Path) -> None:
    with EmbeddedCluster(2, data_dir=tmp_path):
        node = read_layout(tmp_path).node(1)
        broker = versions_of(node.host, node.port)
        controller = versions_of(node.host, node.controller_port)
    expected = {
        str(key): (
            api.name,
            text_of(api.lowest, api.highest),
            broker.get(key, NOT_SERVED),
            controller.get(key, NOT_SERVED),
        )
        for key, api in APIS.items()
    }
    rows = ROW.findall((ROOT / "docs" / "compatibility.md").read_text())
    assert {key: tuple(cells) for key, *cells in rows} == expected


def versions_of(host: str, port: int) -> dict[int, str]:
    """Return the ranges that a listener lists in ApiVersions, by API key."""
    with RawClient(host, port) as client:
        response = client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
    return {entry.api_key: text_of(entry.min_version, entry.max_version) for entry in response.api_keys}


def text_of(lowest: int, highest: int) -> str:
    return str(lowest) if lowest == highest else f"{lowest}-{highest}"
