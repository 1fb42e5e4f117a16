"""docs/compatibility.md lists the API versions that a running cluster serves, and the keys without effect."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

from tests.support.network.raw_client import RawClient
from tests.support.paths import ROOT
from tidelog.broker.config.keys.key import Key
from tidelog.broker.config.settings import BROKER_CONFIGS, BrokerSettings
from tidelog.local_cluster.layout import read_layout
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.registry import APIS
from tidelog.testing.embedded import EmbeddedCluster

ROW = re.compile(r"^\| (\d+) \| (\w+) \| ([\d-]+) \| ([\d-]+|no) \| ([\d-]+|no) \| .*\|$", re.MULTILINE)
NOT_SERVED = "no"
KEYS_WITHOUT_EFFECT = re.compile(r"^\| keys \| reason \|\n(.*?)\n\n", re.MULTILINE | re.DOTALL)
NEW_GROUP_PROTOCOLS = re.compile(r"group\.share\.persister")


def test_the_table_of_apis_is_what_a_cluster_serves(tmp_path: Path) -> None:
    with EmbeddedCluster(2, data_dir=tmp_path, config={"client.telemetry.metrics.enable": "true"}):
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
        response = client.send_request(ApiVersionsRequest(), 0, ApiVersionsResponse)
    return {entry.api_key: text_of(entry.min_version, entry.max_version) for entry in response.api_keys}


def text_of(lowest: int, highest: int) -> str:
    return str(lowest) if lowest == highest else f"{lowest}-{highest}"


def test_the_keys_without_effect_are_those_whose_documentation_states_it() -> None:
    without_effect = {
        key
        for key, definition in BROKER_CONFIGS.items()
        if "no effect" in definition.documentation or NEW_GROUP_PROTOCOLS.match(key)
    }
    assert listed_keys_without_effect() == without_effect


def test_each_key_that_no_module_reads_is_listed() -> None:
    attributes = {
        value.definition.key: name
        for owner in BrokerSettings.__mro__
        for name, value in vars(owner).items()
        if isinstance(value, Key)
    }
    words: set[str] = set()
    for module in (ROOT / "tidelog").rglob("*.py"):
        if "config/keys" not in module.as_posix():
            words.update(re.findall(r"\w+|\"[\w.]+\"", module.read_text()))
    unread = {key for key, name in attributes.items() if not words & {name, f'"{key}"'}}
    assert unread <= listed_keys_without_effect()


def listed_keys_without_effect() -> set[str]:
    """Return the keys that the table of keys without effect lists."""
    table = KEYS_WITHOUT_EFFECT.findall((ROOT / "docs" / "compatibility.md").read_text())[0]
    patterns = [name for row in table.splitlines() for name in re.findall(r"`([\w.*]+)`", row.split("|")[1])]
    return {key for key in BROKER_CONFIGS if any(fnmatch(key, pattern) for pattern in patterns)}
